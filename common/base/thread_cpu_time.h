// What this thread has cost, as against how long it took.
#pragma once

#include <chrono>
#include <ctime>

#include "common/base/clock.h"

namespace qanat {

// CPU time of the calling thread since it began.
inline Duration ThreadCpuTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace qanat
