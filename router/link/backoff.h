// How long to wait before trying again.
#pragma once

#include <cstdint>
#include <random>

#include "common/base/clock.h"

namespace qanat::router {

// What: delays that double from `first` to `most`, each cut at random to between a half and the whole, so
// that many routers do not come back to a worker at once. Threads: one at a time. No errors.
class Backoff {
 public:
  // REQUIRES: 0 < first <= most.
  Backoff(Duration first, Duration most, uint64_t seed);

  Duration Next();
  // The next delay is from `first` again.
  void Reset() { bound_ = first_; }

 private:
  const Duration first_;
  const Duration most_;
  Duration bound_;
  std::mt19937_64 random_;
};

}  // namespace qanat::router
