// Time, passed in: nothing below main() reads a clock of its own.
#pragma once

#include <chrono>

namespace qanat {

using Duration = std::chrono::nanoseconds;
// Of a monotonic clock; only differences mean anything.
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// What: the source of time. Threads: any. tests/fakes has a clock that a test moves.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

// The machine's monotonic clock.
class RealClock final : public Clock {
 public:
  Time Now() const override {
    return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
  }
};

inline double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace qanat
