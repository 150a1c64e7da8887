#include "worker/engine/drain_estimate.h"

#include <chrono>

#include "gtest/gtest.h"

namespace qanat::engine {
namespace {

using std::chrono::milliseconds;

double Ms(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

TEST(DrainEstimateTest, KnowsNothingAtFirst) {
  const DrainEstimate estimate;
  EXPECT_EQ(estimate.Wait(100), Duration::zero());
  EXPECT_EQ(estimate.Service(100), Duration::zero());
}

TEST(DrainEstimateTest, LearnsHowFastABackloggedQueueMoves) {
  DrainEstimate estimate;
  // One leaves every fourth step of 10 ms.
  for (int i = 1; i <= 400; ++i) estimate.OnStep(milliseconds(10), i % 4 == 0 ? 1 : 0, 50);
  EXPECT_NEAR(Ms(estimate.Wait(1)), 40, 1);
  EXPECT_NEAR(Ms(estimate.Wait(10)), 400, 10);
  // Then four leave in each.
  for (int i = 0; i < 200; ++i) estimate.OnStep(milliseconds(10), 4, 50);
  EXPECT_NEAR(Ms(estimate.Wait(1)), 2.5, 0.2);
}

TEST(DrainEstimateTest, TimeWithoutAQueueSaysNothing) {
  DrainEstimate estimate;
  estimate.OnStep(milliseconds(10), 1, 5);
  for (int i = 0; i < 1000; ++i) estimate.OnStep(milliseconds(10), 0, 0);
  estimate.OnStep(milliseconds(10), 1, 0);
  EXPECT_NEAR(Ms(estimate.Wait(1)), 10, 0.1);
}

TEST(DrainEstimateTest, AnAnswerTakesAsLongAsItMayBeOrAsMostAre) {
  DrainEstimate estimate;
  for (int i = 0; i < 1000; ++i) {
    const int tokens = i % 2 == 0 ? 40 : 60;
    estimate.OnEnd(milliseconds(4), milliseconds(4 * (tokens - 1)), tokens);
  }
  EXPECT_NEAR(Ms(estimate.Service(10)), 40, 1);
  EXPECT_NEAR(Ms(estimate.Service(50)), 200, 1);
  EXPECT_NEAR(Ms(estimate.Service(5000)), 4 * (50 + 3 * 10), 10)
      << "what it may make at most is not what it will";
}

// A request of one token is all prefill: that says nothing of what further tokens take.
TEST(DrainEstimateTest, ShortAnswersMakeNoLongOneSeemSlow) {
  DrainEstimate estimate;
  for (int i = 0; i < 1000; ++i) {
    estimate.OnEnd(milliseconds(500), milliseconds(0), 1);
    estimate.OnEnd(milliseconds(500), milliseconds(3500), 200);
  }
  EXPECT_NEAR(Ms(estimate.Service(200)), 4000, 40);
  EXPECT_NEAR(Ms(estimate.Service(1)), 500, 5);
}

TEST(DrainEstimateTest, ALongAnswerCountsForItsLength) {
  DrainEstimate estimate;
  // Half of them 2 tokens, 100 ms apart; half 101 tokens, 10 ms apart.
  for (int i = 0; i < 1000; ++i) {
    estimate.OnEnd(milliseconds(0), milliseconds(100), 2);
    estimate.OnEnd(milliseconds(0), milliseconds(1000), 101);
  }
  EXPECT_NEAR(Ms(estimate.Service(102)), 1100, 30);
}

}  // namespace
}  // namespace qanat::engine
