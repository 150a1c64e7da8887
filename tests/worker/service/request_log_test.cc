#include "worker/service/request_log.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/service/captured_log.h"

namespace qanat::service {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RequestLogTest, LabelsAreSafeForAnyFormat) {
  EXPECT_EQ(SafeLabel("job-7:a.b_C"), "job-7:a.b_C");
  EXPECT_EQ(SafeLabel("\"},{\"x\":\n\\"), "?????x?:??");
  EXPECT_EQ(SafeLabel(std::string(1000, 'a')), std::string(64, 'a'));
  EXPECT_EQ(SafeLabel("\xC3\xA9"), "??");
}

TEST(RequestLogTest, LeavesOneLineWithIdsCountsTimingsAndOutcome) {
  const CapturedLog log;
  engine::Outcome outcome;
  outcome.reason = engine::EndReason::kLength;
  outcome.prompt_tokens = 11;
  outcome.cached_tokens = 4;
  outcome.completion_tokens = 7;
  outcome.queue = std::chrono::microseconds(1500);
  LogEnd(SequenceId{42}, "my id", outcome, std::chrono::milliseconds(20));
  const std::string line = log.lines();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  for (const char* part : {"sequence=42", "request_id=my?id", "outcome=length", "prompt_tokens=11",
                           "cached_tokens=4", "completion_tokens=7", "queue_ms=1.500", "total_ms=20.000"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
}

TEST(RequestLogTest, ARefusalLeavesOneLineWithItsReasonAndNothingThatWasAsked) {
  const CapturedLog log;
  LogRefusal("my id", InvalidField("stopping.stop", "\"secret\" is no stop"), /*redirected=*/false);
  LogRefusal("other", absl::DeadlineExceededError("late"), /*redirected=*/true);
  LogRefusal("one of many", WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"),
             /*redirected=*/false);
  const std::string lines = log.lines();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << "one goes on elsewhere, one is counted only";
  for (const char* part : {"request not accepted", "request_id=my?id", "code=INVALID_ARGUMENT",
                           "reason=INVALID_FIELD", "field=stopping.stop"}) {
    EXPECT_THAT(lines, HasSubstr(part));
  }
  EXPECT_THAT(lines, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace qanat::service
