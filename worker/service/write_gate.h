// One write of a stream at a time, and nothing forgotten meanwhile.
#pragma once

#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace qanat::service {

// What: stands between the task that writes to a stream (the drain) and the reaction that tells of a write's
// end. Owns nothing. Threads: Check and Begin are the drain's, End the reaction's. Errors: none.
class WriteGate {
 public:
  // When the write under way began, and a note to drain after it; unset: a write may begin.
  std::optional<Time> Check() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    drain_after_ = began_.has_value();
    return began_;
  }

  // A write begins. `drain_after`: there is more to write already. REQUIRES: none is under way.
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

 private:
  Mutex mu_;
  std::optional<Time> began_ GUARDED_BY(mu_);
  bool drain_after_ GUARDED_BY(mu_) = false;
};

}  // namespace qanat::service
