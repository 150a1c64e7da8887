// The ladder on a simulated device, as the command runs it: what is measured is what the closed forms say.
#include "tools/qanat/claims/rounds.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/tools/qanat/claims/ladder_fixture.h"
#include "tools/qanat/claims/expect.h"

namespace qanat::tools::claims {
namespace {

// A step takes 10 ms and a millisecond a row; a prompt's token a quarter of one.
constexpr StepModel kDevice{.fixed_us = 10000, .sequence_us = 1000, .token_us = 250};

class RoundsTest : public LadderFixture {
 protected:
  RoundsTest() : LadderFixture(kDevice) {}

  Report Run(const std::vector<std::vector<Scenario>>& rounds) {
    auto report = RunRounds(rounds, {"test", runner_, clock_, options_});
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }
};

void ExpectAlike(const Figures& seen, const Figures& form, bool cached) {
  EXPECT_NEAR(seen.tokens_per_second / form.tokens_per_second, 1, 0.05);
  EXPECT_NEAR(seen.busy / form.busy, 1, 0.05);
  EXPECT_NEAR(seen.kv_use / form.kv_use, 1, 0.05);
  EXPECT_NEAR(seen.tpot_seconds / form.tpot_seconds, 1, 0.05);
  EXPECT_NEAR(seen.ttft_seconds / form.ttft_seconds, 1, 0.08);
  EXPECT_NEAR(seen.saved, form.saved, cached ? 0.1 * form.saved : 0);
}

TEST_F(RoundsTest, AllFiguresAreThoseOfTheClosedForms) {
  for (const Lengths lengths : {Lengths::kExponential, Lengths::kLogNormal, Lengths::kConstant}) {
    for (const bool tight : {false, true}) {
      const Scenario scenario = MakeLadder(kSizes, lengths, tight, 1, 1000);
      SCOPED_TRACE(scenario.title);
      const Report report = Run({{scenario}});
      for (size_t i = 0; i < scenario.modes.size(); ++i) {
        const Row& row = report.sections[0].rows[i];
        SCOPED_TRACE(row.mode);
        ExpectAlike(row.measured[0], row.expected[0], scenario.modes[i].prefix_cache);
      }
    }
  }
}

// Where a step costs by its rows, ended rows make the time of long contexts cheap.
TEST_F(RoundsTest, CompactedContextsAreWeightedByTime) {
  constexpr StepModel kByRow{.fixed_us = 100, .sequence_us = 5000, .token_us = 1};
  sim::SimModelRunner runner({.device = kByRow, .vocabulary = 1000}, clock_);
  Scenario scenario = MakeLadder(kSizes, Lengths::kExponential, false, 1, 1000);
  const auto report = RunRounds({{scenario}}, {"test", runner, clock_, options_});
  ASSERT_TRUE(report.ok()) << report.status();
  const std::vector<Row>& rows = report->sections[0].rows;
  EXPECT_LT(rows[1].measured[0].kv_use, 0.85 * rows[0].measured[0].kv_use);
  EXPECT_NEAR(rows[1].measured[0].kv_use / rows[1].expected[0].kv_use, 1, 0.05);
}

// Where prompts take most of the time, who runs after the last admission draws its tokens far quicker: they
// must not count for the time before.
TEST_F(RoundsTest, TokensCountWhenTheyAreDrawn) {
  constexpr StepModel kDearPrompts{.fixed_us = 1000, .sequence_us = 100, .token_us = 500};
  sim::SimModelRunner runner({.device = kDearPrompts, .vocabulary = 1000}, clock_);
  Sizes sizes = kSizes;
  sizes.requests = 32;
  const Scenario scenario = MakeKvUse(sizes, 1, 1000);
  const auto report = RunRounds({{scenario}}, {"test", runner, clock_, options_});
  ASSERT_TRUE(report.ok()) << report.status();
  for (const Row& row : report->sections[0].rows) {
    SCOPED_TRACE(row.mode);
    ExpectAlike(row.measured[0], row.expected[0], false);
  }
}

TEST_F(RoundsTest, ClosedLoopsHaveNoFormOfTimes) {
  const Scenario scenario = MakeSharedPrefix(64, 16, 1, 1000);
  EXPECT_NEAR(ComputedShare(scenario), (8 * 512 + 64 * 32) / (64.0 * 544), 1e-9);
  const Report report = Run({{scenario}});
  for (const Row& row : report.sections[0].rows) {
    SCOPED_TRACE(row.mode);
    EXPECT_LT(row.expected[0].ttft_seconds, 0);
    EXPECT_LT(row.expected[0].tpot_seconds, 0);
    EXPECT_NEAR(row.measured[0].tokens_per_second / row.expected[0].tokens_per_second, 1, 0.15);
    EXPECT_NEAR(row.measured[0].kv_use / row.expected[0].kv_use, 1, 0.05);
  }
}

TEST_F(RoundsTest, EachRoundHasLengthsInAnotherOrder) {
  std::vector<std::vector<Scenario>> rounds;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    rounds.push_back({MakeLadder(kSizes, Lengths::kExponential, false, seed, 1000)});
  }
  const Report report = Run(rounds);
  for (const Row& row : report.sections[0].rows) {
    SCOPED_TRACE(row.mode);
    ASSERT_EQ(row.measured.size(), 3u);
    ASSERT_EQ(row.expected.size(), 3u);
    EXPECT_NE(row.measured[0].tokens_per_second, row.measured[1].tokens_per_second);
    EXPECT_NE(row.measured[1].tokens_per_second, row.measured[2].tokens_per_second);
  }
}

}  // namespace
}  // namespace qanat::tools::claims
