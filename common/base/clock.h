// Time, passed in: nothing below main() reads a clock of its own.
#pragma once

#include <chrono>
#include <thread>

namespace qanat {

using Duration = std::chrono::nanoseconds;
// Of a monotonic clock; only differences mean anything.
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// What: the source of time. Threads: any. virtual_clock.h has one that its owner moves.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

// A clock that can be waited on, for what stands in for a device or a caller. Nothing else waits for time.
class WaitableClock : public Clock {
 public:
  // Returns at `until` or, where it has passed, at once.
  virtual void WaitUntil(Time until) = 0;
};

// The machine's monotonic clock.
class RealClock final : public WaitableClock {
 public:
  void WaitUntil(Time until) override { std::this_thread::sleep_until(until); }
  Time Now() const override {
    return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
  }
};

inline double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace qanat
