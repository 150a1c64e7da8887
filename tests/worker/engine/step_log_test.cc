#include "worker/engine/step_log.h"

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/temporary_file.h"

namespace qanat::engine {
namespace {

using testing::HasSubstr;

constexpr char kHeader[] = "sequences,tokens,context_tokens,chunk_attention,seconds\n";

TEST(StepLogTest, ReadsBackEveryStepAndPassesItOn) {
  struct Counting final : EngineMetrics {
    void OnStep(const StepStats&) override { ++steps; }
    void OnInterToken(Duration) override { ++gaps; }
    void OnEnd(const Outcome&, Duration) override { ++ends; }
    int steps = 0, gaps = 0, ends = 0;
  } next;
  const fakes::TemporaryFile file("what was there before");
  std::mt19937_64 random(1);
  std::vector<MeasuredStep> steps;
  {
    auto log = StepLog::Create(file.path(), next);
    ASSERT_TRUE(log.ok()) << log.status();
    for (int i = 0; i < 5000; ++i) {
      StepStats stats;
      stats.shape = {static_cast<int64_t>(random() % 256), static_cast<int64_t>(random() % 8192),
                     static_cast<int64_t>(random() % (1 << 20)),
                     static_cast<int64_t>(random() % (1ll << 40))};
      stats.took = Duration(static_cast<int64_t>(random() % (1ull << (1 + random() % 40))));
      steps.push_back({stats.shape, stats.took});
      (*log)->OnStep(stats);
    }
    // While it lives: nothing waits in memory.
    EXPECT_TRUE(ReadStepLog(file.path()).value() == steps);
    (*log)->OnInterToken({});
    (*log)->OnEnd({}, {});
  }
  EXPECT_TRUE(ReadStepLog(file.path()).value() == steps);
  EXPECT_EQ(next.steps, 5000);
  EXPECT_EQ(next.gaps + next.ends, 2);
}

TEST(StepLogTest, RefusesWhatItDoesNotWriteByLine) {
  for (const char* line :
       {"", "1,2,3,4", "1,2,3,4,", "1,2,3,4,x", "1,2,3,4,0.5,6", "-1,2,3,4,0.5", "1;2;3;4;5", "1,2,3,4,-0.5",
        "1,2,3,4,nan", "1,2,3,4,1e300", "1,2,3,99999999999999999999,1"}) {
    const fakes::TemporaryFile file(std::string(kHeader) + "1,1,10,0,0.25\n" + line + "\n");
    const auto read = ReadStepLog(file.path());
    ASSERT_TRUE(absl::IsInvalidArgument(read.status())) << line;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(file.path() + ":3: "));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ReadStepLog(fakes::TemporaryFile("").path()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadStepLog(fakes::TemporaryFile("a,b\n").path()).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadStepLog("/nowhere/steps.csv").status()));
}

TEST(StepLogTest, LeavesOutALineWithoutItsEnd) {
  const fakes::TemporaryFile file(std::string(kHeader) + "1,1,10,0,0.25\n1,1,11,0,0.2");
  const auto read = ReadStepLog(file.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, (std::vector<MeasuredStep>{{{1, 1, 10, 0}, std::chrono::milliseconds(250)}}));
}

TEST(StepLogTest, SaysWhichFileCannotBeWritten) {
  EngineMetrics next;
  const auto log = StepLog::Create("/nowhere/steps.csv", next);
  EXPECT_TRUE(absl::IsPermissionDenied(log.status()));
  EXPECT_THAT(std::string(log.status().message()), HasSubstr("/nowhere/steps.csv"));
}

}  // namespace
}  // namespace qanat::engine
