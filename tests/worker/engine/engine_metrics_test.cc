// What the metrics are told of steps, and outcomes of times and hits.
#include <chrono>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

using EngineMetricsTest = EngineFixture;

TEST_F(EngineMetricsTest, StepsTellWhatTheyComputed) {
  rig().Submit(MakeRequest(40, 3));
  rig().RunAll();
  const std::vector<StepStats>& steps = rig().metrics.steps;
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].prefill_tokens, 32);
  EXPECT_EQ(steps[0].queried_tokens, 40);
  EXPECT_EQ(steps[0].hit_tokens, 0);
  EXPECT_EQ(steps[1].prefill_tokens, 8);
  EXPECT_EQ(steps[2].prefill_tokens, 0);
  EXPECT_EQ(steps[2].decode_tokens, 1);
  EXPECT_EQ(steps[3].decode_tokens, 1);
  EXPECT_EQ(steps[3].sequences, 1);
}

TEST_F(EngineMetricsTest, HitsAreToldOnceAndInTheOutcome) {
  const Request first = MakeRequest(40, 3);
  rig().Submit(first);
  rig().RunAll();
  const Request second = MakeRequest(40, 3);
  rig().Submit(second);
  rig().RunAll();
  EXPECT_EQ(SinkOf(first).outcome().cached_tokens, 0);
  EXPECT_EQ(SinkOf(second).outcome().cached_tokens, 36);
  EXPECT_EQ(rig().metrics.steps[4].hit_tokens, 36);
  EXPECT_EQ(SinkOf(second).tokens(), SinkOf(first).tokens());
}

TEST_F(EngineMetricsTest, EvictionsAreTold) {
  EngineOptions options = SmallOptions();
  options.num_blocks = 8;
  options.context_length = 32;
  Start(options);
  rig().Submit(MakeRequest(24, 4, 1));
  rig().RunAll();
  rig().Submit(MakeRequest(24, 4, 300));
  rig().RunAll();
  int32_t evictions = 0;
  for (const StepStats& stats : rig().metrics.steps) evictions += stats.evictions;
  EXPECT_EQ(evictions, 5) << "two of the eight blocks held nothing, and the second takes seven";
}

TEST_F(EngineMetricsTest, TimesAreTakenFromTheClock) {
  rig().runner.set_on_launch([this](const ModelBatch&) { rig().clock.Advance(milliseconds(10)); });
  const Request request = MakeRequest(10, 3);
  rig().Submit(request);
  rig().clock.Advance(milliseconds(5));
  rig().RunAll();
  const Outcome outcome = SinkOf(request).outcome();
  EXPECT_EQ(outcome.queue, milliseconds(5));
  EXPECT_EQ(outcome.prefill, milliseconds(10));
  EXPECT_EQ(outcome.decode, milliseconds(22)) << "two steps, and the rig's own millisecond after each";
  EXPECT_THAT(rig().metrics.gaps, ElementsAre(milliseconds(11), milliseconds(11)));
  EXPECT_EQ(rig().metrics.steps[0].launch, milliseconds(10));
  EXPECT_EQ(rig().metrics.ends[0].second, milliseconds(37));
}

}  // namespace
}  // namespace qanat::engine
