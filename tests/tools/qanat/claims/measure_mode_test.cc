// Runs of single modes on a simulated device.
#include "tools/qanat/claims/measure_mode.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/tools/qanat/claims/ladder_fixture.h"

namespace qanat::tools::claims {
namespace {

// A step takes 10 ms, a millisecond a row, and prompts next to nothing.
constexpr StepModel kDevice{.fixed_us = 10000, .sequence_us = 1000, .token_us = 1};

class MeasureModeTest : public LadderFixture {
 protected:
  MeasureModeTest() : LadderFixture(kDevice) {}

  std::vector<Figures> RunLadder(const Scenario& scenario) {
    std::vector<Figures> all;
    for (const Mode& mode : scenario.modes) {
      const auto measured = MeasureMode(scenario, mode, {"test", runner_, clock_, options_});
      EXPECT_TRUE(measured.ok()) << measured.status();
      all.push_back(measured->figures);
    }
    return all;
  }
};

TEST_F(MeasureModeTest, ExponentialLengthsGainTheHarmonicNumberAndEqualOnesNothing) {
  constexpr double kHarmonic8 = 2.7179;
  const auto gain = [this](Lengths lengths) {
    const std::vector<Figures> ladder = RunLadder(MakeLadder(kSizes, lengths, false, 1, 1000));
    return ladder[3].tokens_per_second / ladder[0].tokens_per_second;
  };
  EXPECT_NEAR(gain(Lengths::kExponential), kHarmonic8, 0.25);
  EXPECT_NEAR(gain(Lengths::kConstant), 1, 0.01);
}

// The longest request may be in the last batch as in any other.
TEST_F(MeasureModeTest, TheLastBatchCounts) {
  Scenario scenario = MakeLadder(kSizes, Lengths::kConstant, false, 1, 1000);
  const double even = RunLadder(scenario)[0].tokens_per_second;
  const auto with_long = [&](size_t at) {
    Scenario uneven = scenario;
    uneven.workload.requests[at].ends_after = kSizes.longest;
    return RunLadder(uneven)[0].tokens_per_second;
  };
  const double in_last = with_long(scenario.workload.requests.size() - 1);
  EXPECT_NEAR(in_last, with_long(0), 0.001 * even);
  // 50 batches of 60 steps, and 340 steps more for one.
  EXPECT_NEAR(in_last / even, 3000.0 / 3340 * (24000.0 + 340) / 24000, 0.01);
}

TEST_F(MeasureModeTest, ATightPoolHoldsFewLongestCases) {
  const std::vector<Figures> ladder = RunLadder(MakeLadder(kSizes, Lengths::kExponential, true, 1, 1000));
  EXPECT_LT(ladder[2].busy, 0.5);
  EXPECT_LT(ladder[2].kv_use, 0.4);
  EXPECT_GT(ladder[3].busy, 0.9);
  EXPECT_GT(ladder[3].kv_use, 0.85);
  EXPECT_EQ(ladder[3].saved, 0);
  EXPECT_GT(ladder[4].saved, 0.1);
}

TEST_F(MeasureModeTest, SharedPrefixesAreComputedOnce) {
  constexpr StepModel kPromptsCost{.fixed_us = 1000, .token_us = 100};
  sim::SimModelRunner runner({.device = kPromptsCost, .vocabulary = 1000}, clock_);
  const Scenario scenario = MakeSharedPrefix(64, 16, 1, 1000);
  ASSERT_EQ(scenario.modes.size(), 2u);
  std::vector<Figures> seen;
  for (const Mode& mode : scenario.modes) {
    const auto measured = MeasureMode(scenario, mode, {"test", runner, clock_, options_});
    ASSERT_TRUE(measured.ok()) << measured.status();
    seen.push_back(measured->figures);
  }
  EXPECT_GT(seen[1].tokens_per_second, 2.5 * seen[0].tokens_per_second);
  EXPECT_LT(seen[1].ttft_seconds, 0.35 * seen[0].ttft_seconds);
}

}  // namespace
}  // namespace qanat::tools::claims
