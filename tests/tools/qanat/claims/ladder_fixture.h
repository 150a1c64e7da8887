// Ladders on a simulated device, small enough for tests.
#pragma once

#include "common/base/virtual_clock.h"
#include "gtest/gtest.h"
#include "tools/qanat/claims/scenario.h"
#include "worker/engine/engine_options.h"
#include "worker/sim/sim_model_runner.h"

namespace qanat::tools::claims {

inline constexpr Sizes kSizes{.seats = 8,
                              .requests = 400,
                              .prompt = 40,
                              .prompts_vary = false,
                              .shared = 32,
                              .groups = 2,
                              .output = 60,
                              .longest = 400};

class LadderFixture : public testing::Test {
 protected:
  explicit LadderFixture(const StepModel& device) : runner_({.device = device, .vocabulary = 1000}, clock_) {
    options_.context_length = 1024;
    options_.max_batch_tokens = 4096;
    options_.chunk_tokens = 1024;
  }

  VirtualClock clock_;
  sim::SimModelRunner runner_;
  engine::EngineOptions options_;
};

}  // namespace qanat::tools::claims
