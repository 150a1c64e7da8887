#include "worker/service/request_log.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/sinks/ostream_sink.h"

namespace qanat::service {
namespace {

using ::testing::HasSubstr;

TEST(RequestLogTest, LabelsAreSafeForAnyFormat) {
  EXPECT_EQ(SafeLabel("job-7:a.b_C"), "job-7:a.b_C");
  EXPECT_EQ(SafeLabel("\"},{\"x\":\n\\"), "?????x?:??");
  EXPECT_EQ(SafeLabel(std::string(1000, 'a')), std::string(64, 'a'));
  EXPECT_EQ(SafeLabel("\xC3\xA9"), "??");
}

TEST(RequestLogTest, LeavesOneLineWithIdsCountsTimingsAndOutcome) {
  std::ostringstream lines;
  const auto before = spdlog::default_logger();
  auto logger =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines));
  logger->set_formatter(MakeLogFormatter("text").value());
  spdlog::set_default_logger(std::move(logger));
  engine::Outcome outcome;
  outcome.reason = engine::EndReason::kLength;
  outcome.prompt_tokens = 11;
  outcome.cached_tokens = 4;
  outcome.completion_tokens = 7;
  outcome.queue = std::chrono::microseconds(1500);
  LogEnd(SequenceId{42}, "my id", outcome, std::chrono::milliseconds(20));
  spdlog::set_default_logger(before);
  const std::string line = lines.str();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  for (const char* part : {"sequence=42", "request_id=my?id", "outcome=length", "prompt_tokens=11",
                           "cached_tokens=4", "completion_tokens=7", "queue_ms=1.500", "total_ms=20.000"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
}

}  // namespace
}  // namespace qanat::service
