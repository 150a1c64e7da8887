// Randomness of the machine, passed in where a seed is drawn.
#pragma once

#include <cstdint>
#include <random>

#include "common/base/mutex.h"

namespace qanat {

// What: numbers that differ from process to process. Threads: any. Errors: none.
class RandomSource {
 public:
  uint64_t Draw() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return engine_();
  }

 private:
  Mutex mu_;
  std::mt19937_64 engine_ GUARDED_BY(mu_){(uint64_t{std::random_device()()} << 32) ^ std::random_device()()};
};

}  // namespace qanat
