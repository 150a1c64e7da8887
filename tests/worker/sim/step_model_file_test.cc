#include "worker/sim/step_model_file.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/temporary_file.h"

namespace qanat::sim {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const fakes::TemporaryFile file(text);
  const auto model = ReadStepModel(file.path());
  EXPECT_FALSE(model.ok());
  EXPECT_THAT(std::string(model.status().message()), HasSubstr(file.path()));
  return std::string(model.status().message());
}

TEST(StepModelFileTest, ReadsWhatItWrote) {
  const StepModel model{503.25, 20, 3000, 1.0 / 3, 0, 1e-9};
  const fakes::TemporaryFile file(ToJson(model));
  const auto read = ReadStepModel(file.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, model);
}

TEST(StepModelFileTest, RefusesWhatIsNoModelByKey) {
  EXPECT_THAT(ErrorOf("[1]"), HasSubstr("JSON object"));
  EXPECT_THAT(ErrorOf("{"), HasSubstr("JSON object"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("fixed_us"));
  std::string text = ToJson({1, 2, 3, 4, 5, 6});
  text.replace(text.find("4.0"), 3, "-4.0");
  EXPECT_THAT(ErrorOf(text), HasSubstr("token_us"));
  text.replace(text.find("-4.0"), 4, "\"4\"");
  EXPECT_THAT(ErrorOf(text), HasSubstr("token_us"));
  EXPECT_THAT(ErrorOf(ToJson({})), HasSubstr("all coefficients are 0"));
}

TEST(StepModelFileTest, NamesAFileThatIsNotThere) {
  EXPECT_TRUE(absl::IsNotFound(ReadStepModel("/nowhere/model.json").status()));
}

}  // namespace
}  // namespace qanat::sim
