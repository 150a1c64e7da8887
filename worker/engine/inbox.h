// What other threads have for the engine thread.
#pragma once

#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "worker/engine/request.h"

namespace qanat::engine {

struct Submission {
  SequenceId id{};
  Time arrival{};
  Request request;
};

struct Cancellation {
  SequenceId id{};
  EndReason reason = EndReason::kCancelled;
};

struct Mail {
  std::vector<Submission> submissions;
  std::vector<Cancellation> cancellations;

  bool empty() const { return submissions.empty() && cancellations.empty(); }
};

// What: a mailbox. The door bounds the submissions in it; cancellations are small and gone with the next
// step. Threads: any puts, one takes. A lock is held for a move only. Errors: none.
class Inbox {
 public:
  void Put(Submission submission) EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      mail_.submissions.push_back(std::move(submission));
    }
    changed_.NotifyOne();
  }
  void Put(Cancellation cancellation) EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      mail_.cancellations.push_back(cancellation);
    }
    changed_.NotifyOne();
  }
  // All that came since the last call.
  Mail Take() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return std::exchange(mail_, {});
  }

  // Waits for mail. False when the inbox is closed.
  bool Wait() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (mail_.empty() && !closed_) changed_.Wait(mu_);
    return !closed_;
  }
  void Close() EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      closed_ = true;
    }
    changed_.NotifyAll();
  }
  bool closed() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return closed_;
  }

 private:
  mutable Mutex mu_;
  CondVar changed_;
  Mail mail_ GUARDED_BY(mu_);
  bool closed_ GUARDED_BY(mu_) = false;
};

}  // namespace qanat::engine
