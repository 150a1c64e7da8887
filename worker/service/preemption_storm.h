// Says in the log that the pool is too small for what runs.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/clock.h"
#include "worker/engine/engine_metrics.h"

namespace qanat::service {

// What: adds up the preemptions of steps, and logs one line for each kWindow of step time with kStorm of them
// or more. Idle time is none: a storm needs steps. Owns nothing. Threads: the engine thread. Errors: none.
class PreemptionStorm {
 public:
  static constexpr Duration kWindow = std::chrono::seconds(10);
  static constexpr int32_t kStorm = 10;

  void OnStep(const engine::StepStats& stats);

 private:
  // Of the present window.
  Duration passed_{};
  int64_t steps_ = 0;
  int32_t preemptions_ = 0;
  int64_t recomputed_tokens_ = 0;
};

}  // namespace qanat::service
