// What other threads have for the engine thread.
#pragma once

#include <optional>
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

// A paused sequence may go on.
struct Resumption {
  SequenceId id{};
};

struct Mail {
  std::vector<Submission> submissions;
  std::vector<Cancellation> cancellations;
  std::vector<Resumption> resumptions;

  bool empty() const { return submissions.empty() && cancellations.empty() && resumptions.empty(); }
};

// What: a mailbox. The door bounds the submissions in it; the other mail is small and gone with the next
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
  void Put(Resumption resumption) EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      mail_.resumptions.push_back(resumption);
    }
    changed_.NotifyOne();
  }
  // All that came since the last call.
  Mail Take() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return std::exchange(mail_, {});
  }

  // Waits for mail, at most for `timeout` where it is set. False when the inbox is closed.
  bool Wait(std::optional<Duration> timeout) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (timeout.has_value()) {
      if (mail_.empty() && !closed_) changed_.WaitFor(mu_, *timeout);
    } else {
      while (mail_.empty() && !closed_) changed_.Wait(mu_);
    }
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
