#include "common/base/log.h"

#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/ostream_sink.h"

namespace qanat {
namespace {

using ::testing::EndsWith;

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { spdlog::set_default_logger(before_); }

  void Use(const std::string& format) {
    auto logger =
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_));
    logger->set_formatter(MakeLogFormatter(format).value());
    spdlog::set_default_logger(std::move(logger));
  }
  std::string Line() { return std::exchange(lines_, std::ostringstream()).str(); }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream lines_;
};

TEST_F(LogTest, TextNamesEveryField) {
  Use("text");
  LogEvent(spdlog::level::info, "request end").With("tokens", 12).With("outcome", "stop").With("ms", 1.5);
  EXPECT_THAT(Line(), EndsWith(" I request end tokens=12 outcome=stop ms=1.500\n"));
  spdlog::warn("worker {} is down", "a:1");
  EXPECT_THAT(Line(), EndsWith(" W worker a:1 is down\n"));
}

TEST_F(LogTest, JsonIsOneObjectALineWithTypedMembers) {
  Use("json");
  LogEvent(spdlog::level::warn, "request end").With("tokens", 12).With("outcome", "stop").With("ms", -1.5);
  const auto event = nlohmann::json::parse(Line());
  EXPECT_EQ(event["level"], "warning");
  EXPECT_EQ(event["message"], "request end");
  EXPECT_EQ(event["tokens"], 12);
  EXPECT_EQ(event["outcome"], "stop");
  EXPECT_EQ(event["ms"], -1.5);
  EXPECT_TRUE(event.contains("time"));
}

TEST_F(LogTest, NothingThatIsLoggedBreaksALine) {
  Use("json");
  const std::string hostile = "\"},{\"x\":\n\\\x1f\x1e\x1d\x01";
  LogEvent(spdlog::level::info, "event").With("label", hostile).With("more", 1);
  const auto event = nlohmann::json::parse(Line());
  EXPECT_EQ(event["label"], "\"},{\"x\":\n\\???\x01");
  EXPECT_EQ(event["more"], 1);
  spdlog::info("a file named \"{}\"", "x\n");
  EXPECT_EQ(nlohmann::json::parse(Line())["message"], "a file named \"x\n\"");
}

TEST_F(LogTest, LeavesOutWhatIsEmptyOrNoNumber) {
  Use("text");
  LogEvent(spdlog::level::info, "event")
      .With("reason", "")
      .With("ms", std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(Line(), EndsWith(" I event\n"));
}

TEST_F(LogTest, RefusesAnUnknownFormatOrLevel) {
  EXPECT_FALSE(MakeLogFormatter("xml").ok());
  EXPECT_FALSE(InitLogging("xml", "info").ok());
  EXPECT_FALSE(InitLogging("json", "loud").ok());
}

}  // namespace
}  // namespace qanat
