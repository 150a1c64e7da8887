// The ladder on a simulated device: what is measured is what the closed forms say.
#include "tools/qanat/claims/measure_mode.h"

#include <string>
#include <vector>

#include "common/base/virtual_clock.h"
#include "gtest/gtest.h"
#include "worker/sim/sim_model_runner.h"

namespace qanat::tools::claims {
namespace {

// A step takes 10 ms, a millisecond a row, and prompts next to nothing.
constexpr StepModel kDevice{.fixed_us = 10000, .sequence_us = 1000, .token_us = 1};
constexpr Sizes kSizes{.seats = 8,
                       .requests = 400,
                       .prompt = 40,
                       .prompts_vary = false,
                       .shared = 32,
                       .groups = 2,
                       .output = 60,
                       .longest = 400};

class MeasureModeTest : public testing::Test {
 protected:
  MeasureModeTest() {
    options_.context_length = 1024;
    options_.max_batch_tokens = 4096;
    options_.chunk_tokens = 1024;
  }

  std::vector<Measured> RunLadder(const Scenario& scenario) {
    std::vector<Measured> all;
    for (const Mode& mode : scenario.modes) {
      auto measured = MeasureMode(scenario, mode, {"test", runner_, clock_, options_, 1000});
      EXPECT_TRUE(measured.ok()) << measured.status();
      all.push_back(*std::move(measured));
    }
    return all;
  }
  static StepTimes Steps(const Scenario& scenario, const std::vector<Measured>& ladder) {
    StepTimes steps;
    for (size_t i = 0; i < ladder.size(); ++i) {
      if (scenario.modes[i].batching != engine::Batching::kStatic) steps.Add(ladder[i].timings);
    }
    return steps;
  }

  VirtualClock clock_;
  sim::SimModelRunner runner_{{.device = kDevice, .vocabulary = 1000}, clock_};
  engine::EngineOptions options_;
};

TEST_F(MeasureModeTest, WhereThereIsRoomFiguresAreThoseOfTheClosedForms) {
  for (const Lengths lengths : {Lengths::kExponential, Lengths::kLogNormal, Lengths::kConstant}) {
    SCOPED_TRACE(NameOf(lengths));
    const Scenario scenario = MakeLadder(kSizes, lengths, false, 1, 1000);
    const std::vector<Measured> ladder = RunLadder(scenario);
    const StepTimes steps = Steps(scenario, ladder);
    for (size_t i = 0; i < ladder.size(); ++i) {
      SCOPED_TRACE(scenario.modes[i].name);
      const Figures& seen = ladder[i].figures;
      const Figures form = Expect(scenario, scenario.modes[i], steps, ladder[i].timings.prompt_seconds);
      EXPECT_NEAR(seen.tokens_per_second / form.tokens_per_second, 1, 0.06);
      EXPECT_NEAR(seen.busy / form.busy, 1, 0.06);
      EXPECT_NEAR(seen.tpot_seconds / form.tpot_seconds, 1, 0.06);
      // Also a matter of how long the first ones happen to be.
      EXPECT_NEAR(seen.ttft_seconds / form.ttft_seconds, 1, 0.15);
    }
  }
}

TEST_F(MeasureModeTest, ExponentialLengthsGainTheHarmonicNumberAndEqualOnesNothing) {
  const std::vector<Measured> drawn = RunLadder(MakeLadder(kSizes, Lengths::kExponential, false, 1, 1000));
  const auto gain = [](const std::vector<Measured>& ladder) {
    return ladder[3].figures.tokens_per_second / ladder[0].figures.tokens_per_second;
  };
  EXPECT_NEAR(gain(drawn), Harmonic(8), 0.25);
  EXPECT_NEAR(gain(RunLadder(MakeLadder(kSizes, Lengths::kConstant, false, 1, 1000))), 1, 0.05);
}

TEST_F(MeasureModeTest, ATightPoolHoldsFewLongestCases) {
  const std::vector<Measured> ladder = RunLadder(MakeLadder(kSizes, Lengths::kExponential, true, 1, 1000));
  EXPECT_LT(ladder[2].figures.busy, 0.5);
  EXPECT_LT(ladder[2].figures.kv_use, 0.4);
  EXPECT_GT(ladder[3].figures.busy, 0.9);
  EXPECT_GT(ladder[3].figures.kv_use, 0.85);
  EXPECT_EQ(ladder[3].figures.saved, 0);
  EXPECT_GT(ladder[4].figures.saved, 0.1);
}

TEST_F(MeasureModeTest, SharedPrefixesAreComputedOnce) {
  constexpr StepModel kPromptsCost{.fixed_us = 1000, .token_us = 100};
  sim::SimModelRunner runner({.device = kPromptsCost, .vocabulary = 1000}, clock_);
  const Scenario scenario = MakeSharedPrefix(64, 16, 1, 1000);
  ASSERT_EQ(scenario.modes.size(), 2u);
  std::vector<Figures> seen;
  for (const Mode& mode : scenario.modes) {
    const auto measured = MeasureMode(scenario, mode, {"test", runner, clock_, options_, 1000});
    ASSERT_TRUE(measured.ok()) << measured.status();
    seen.push_back(measured->figures);
  }
  EXPECT_GT(seen[1].tokens_per_second, 2.5 * seen[0].tokens_per_second);
  EXPECT_LT(seen[1].ttft_seconds, 0.35 * seen[0].ttft_seconds);
  EXPECT_NEAR(ComputedShare(scenario), (8 * 512 + 64 * 32) / (64.0 * 544), 1e-9);
}

}  // namespace
}  // namespace qanat::tools::claims
