// A clock that only a test moves.
#pragma once

#include <atomic>

#include "common/base/clock.h"

namespace qanat::fakes {

// Threads: any. Starts an hour after the epoch, so that earlier times exist.
class FakeClock final : public Clock {
 public:
  Time Now() const override { return Time(Duration(now_ns_.load(std::memory_order_relaxed))); }
  void Advance(Duration by) { now_ns_.fetch_add(by.count(), std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> now_ns_{Duration(std::chrono::hours(1)).count()};
};

}  // namespace qanat::fakes
