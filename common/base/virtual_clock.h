// Time that passes only where its owner says so: in simulations and tests.
#pragma once

#include <atomic>

#include "common/base/clock.h"

namespace qanat {

// What: waiting moves it. Starts an hour after the epoch, so that earlier times exist. Threads: any may read;
// one moves it.
class VirtualClock final : public WaitableClock {
 public:
  Time Now() const override { return Time(Duration(now_ns_.load(std::memory_order_relaxed))); }
  void WaitUntil(Time until) override {
    if (until > Now()) now_ns_.store(until.time_since_epoch().count(), std::memory_order_relaxed);
  }
  void Advance(Duration by) { now_ns_.fetch_add(by.count(), std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> now_ns_{Duration(std::chrono::hours(1)).count()};
};

}  // namespace qanat
