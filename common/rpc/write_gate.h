// One write of a stream at a time, and nothing forgotten meanwhile.
#pragma once

#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "grpcpp/server_context.h"

namespace qanat::rpc {

// What: stands between the task that writes to a stream (the drain), the reactions that tell of a write's end
// and of the call's, and whoever gives a reader up. `call` lives until Close. Threads: MayWrite and Begin are
// the drain's, End and Close the reactions', the rest any. Errors: none.
class WriteGate {
 public:
  explicit WriteGate(const grpc::ServerContextBase& call) : call_(call) {}

  // False while a write is under way, and a note to drain after it.
  bool MayWrite() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    drain_after_ = began_.has_value();
    return !drain_after_;
  }

  // A write begins, or the status is sent, which may wait for the reader as well. `drain_after`: there is
  // more to write already. REQUIRES: none is under way.
  void Begin(Time now, bool drain_after) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    began_ = now;
    drain_after_ = drain_after;
  }

  // The write is done. True: drain now.
  bool End() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    began_.reset();
    return std::exchange(drain_after_, false);
  }

  // The call is done, and touched no more.
  void Close() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    began_.reset();
    closed_ = true;
  }

  // A write is under way that began before `time`.
  bool BeganBefore(Time time) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return began_.has_value() && *began_ < time;
  }

  // Ends the call, and with it the write under way, which would wait for the reader for ever.
  void Cancel() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    // Under the lock, so that the call is there. gRPC's reactions run on threads of its own.
    if (!closed_) call_.TryCancel();
  }

 private:
  const grpc::ServerContextBase& call_;
  Mutex mu_;
  std::optional<Time> began_ GUARDED_BY(mu_);
  bool drain_after_ GUARDED_BY(mu_) = false;
  bool closed_ GUARDED_BY(mu_) = false;
};

}  // namespace qanat::rpc
