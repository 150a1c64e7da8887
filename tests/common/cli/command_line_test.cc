#include "common/cli/command_line.h"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/temporary_file.h"

namespace qanat::cli {
namespace {

using testing::HasSubstr;

// A program with a flag of each kind.
class CommandLineTest : public testing::Test {
 protected:
  ~CommandLineTest() override {
    for (const auto& [name, value] : environment_) unsetenv(name.c_str());
  }

  void SetVariable(const std::string& name, const std::string& value) {
    environment_[name] = value;
    setenv(name.c_str(), value.c_str(), /*replace=*/1);
  }
  std::optional<int> Run(std::vector<std::string> arguments) {
    CLI::App app("A program.", "program");
    AddFlag(app, "queue-size", size_, "places");
    AddFlag(app, "eager", eager_, "a switch");
    std::vector<char*> argv = {app_name_.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const std::optional<int> exit =
        Parse(app, static_cast<int>(argv.size()), argv.data(), [] { return absl::OkStatus(); });
    output_ = testing::internal::GetCapturedStdout();
    errors_ = testing::internal::GetCapturedStderr();
    return exit;
  }

  std::string app_name_ = "program";
  std::map<std::string, std::string> environment_;
  std::string size_ = "1";
  bool eager_ = false;
  std::string output_, errors_;
};

TEST_F(CommandLineTest, AFlagGoesBeforeTheEnvironmentAndThatBeforeTheFile) {
  const fakes::TemporaryFile file("queue-size=2\neager=true\n");
  EXPECT_EQ(Run({"--config", file.path()}), std::nullopt);
  EXPECT_EQ(size_, "2");
  EXPECT_TRUE(eager_);
  SetVariable("QANAT_QUEUE_SIZE", "3");
  SetVariable("QANAT_EAGER", "false");
  EXPECT_EQ(Run({"--config", file.path()}), std::nullopt);
  EXPECT_EQ(size_, "3");
  EXPECT_FALSE(eager_);
  EXPECT_EQ(Run({"--config", file.path(), "--queue-size=4", "--eager"}), std::nullopt);
  EXPECT_EQ(size_, "4");
  EXPECT_TRUE(eager_);
}

TEST_F(CommandLineTest, ASwitchIsAVariableToo) {
  SetVariable("QANAT_EAGER", "1");
  EXPECT_EQ(Run({}), std::nullopt);
  EXPECT_TRUE(eager_);
  SetVariable("QANAT_EAGER", "perhaps");
  EXPECT_EQ(Run({}), kMistake);
}

TEST_F(CommandLineTest, TheFileIsAVariableTooAndMustBeThere) {
  const fakes::TemporaryFile file("queue-size=5\n");
  SetVariable("QANAT_CONFIG", file.path());
  EXPECT_EQ(Run({}), std::nullopt);
  EXPECT_EQ(size_, "5");
  const fakes::TemporaryFile other("queue-size=6\n");
  EXPECT_EQ(Run({"--config", other.path()}), std::nullopt);
  EXPECT_EQ(size_, "6");
  SetVariable("QANAT_CONFIG", file.path() + ".missing");
  EXPECT_EQ(Run({}), kMistake);
  EXPECT_THAT(errors_, HasSubstr(".missing"));
}

TEST_F(CommandLineTest, AKeyThatIsNoFlagIsAMistakeByName) {
  for (const char* text : {"queue-szie=2\n", "[section]\nqueue-size=2\n", "version=1\n"}) {
    const fakes::TemporaryFile file{std::string_view(text)};
    EXPECT_EQ(Run({"--config", file.path()}), kMistake) << text;
  }
  const fakes::TemporaryFile file("queue-szie=2\n");
  EXPECT_EQ(Run({"--config", file.path()}), kMistake);
  EXPECT_THAT(errors_, HasSubstr("queue-szie"));
}

TEST_F(CommandLineTest, PrintsAConfigThatItReads) {
  EXPECT_EQ(Run({"--print-config", "--queue-size=7", "--eager"}), 0);
  const std::string printed = output_;
  EXPECT_THAT(printed, HasSubstr("queue-size=7"));
  const fakes::TemporaryFile file(printed);
  size_ = "1";
  eager_ = false;
  EXPECT_EQ(Run({"--config", file.path(), "--print-config"}), 0) << errors_;
  EXPECT_EQ(output_, printed);
  EXPECT_EQ(Run({"--config", file.path()}), std::nullopt);
  EXPECT_EQ(size_, "7");
  EXPECT_TRUE(eager_);
}

TEST_F(CommandLineTest, HowToLogIsCheckedWithTheRest) {
  EXPECT_EQ(Run({"--log-level=loud"}), kMistake);
  EXPECT_THAT(errors_, HasSubstr("--log-level"));
  EXPECT_EQ(Run({"--log-format=xml"}), kMistake);
  EXPECT_THAT(errors_, HasSubstr("--log-format"));
}

}  // namespace
}  // namespace qanat::cli
