#include "worker/service/preemption_storm.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/service/captured_log.h"

namespace qanat::service {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// So many steps of 100 ms, each of which preempts so many.
void Step(PreemptionStorm& storm, int steps, int32_t preemptions) {
  engine::StepStats stats;
  stats.sequences = 4;
  stats.preemptions = preemptions;
  stats.recomputed_tokens = 50 * preemptions;
  stats.took = milliseconds(100);
  for (int i = 0; i < steps; ++i) storm.OnStep(stats);
}

TEST(PreemptionStormTest, LeavesOneLineForEachWindowOfAStorm) {
  const CapturedLog log;
  PreemptionStorm storm;
  Step(storm, 1000, 0);
  Step(storm, PreemptionStorm::kStorm - 1, 1);
  Step(storm, 100 - (PreemptionStorm::kStorm - 1), 0);
  EXPECT_EQ(log.lines(), "") << "a preemption now and then is ordinary";
  Step(storm, 250, 1);
  const std::string lines = log.lines();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  for (const char* part : {"preemption storm", "preemptions=100", "recomputed_tokens=5000", "steps=100",
                           "sequences=4", "seconds=10.000"}) {
    EXPECT_THAT(lines, HasSubstr(part));
  }
}

}  // namespace
}  // namespace qanat::service
