#include "worker/service/choice.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/byte_level_vocabulary.h"

namespace qanat::service {
namespace {

class ChoiceTest : public ::testing::Test {
 protected:
  ChoiceTest() : tokenizer_(*text::Tokenizer::Create(fakes::ByteLevelVocabulary({}))) {}

  void TellScores(int32_t first, int32_t count) {
    sampling::ScoredToken score;
    score.chosen.token = fakes::ByteToken('p');
    choice_.OnPromptScores(first, std::vector<sampling::ScoredToken>(count, score));
  }
  void TellToken(int32_t position) {
    const TokenId token = fakes::ByteToken('x');
    choice_.OnTokens(position, {&token, 1}, {});
  }

  std::unique_ptr<text::Tokenizer> tokenizer_;
  Choice choice_{*tokenizer_, AnswerOptions{},
                 ChoiceLimits{.message_bytes = 1 << 20, .memory = 1 << 20, .tokens = 16, .prompt = 100},
                 [] {}};
};

TEST_F(ChoiceTest, ScoresOfThePromptHaveARoomOfTheirOwn) {
  EXPECT_EQ(choice_.Room(), 100);
  TellScores(1, 60);
  EXPECT_EQ(choice_.Room(), 40);
  choice_.OnPaused();
  EXPECT_FALSE(choice_.TakeResumption()) << "less than half of it";
  choice_.Advance();
  EXPECT_EQ(choice_.Room(), 100);
  EXPECT_TRUE(choice_.TakeResumption());
}

TEST_F(ChoiceTest, TheFirstTokenEndsThePromptsRoom) {
  TellScores(1, 20);
  TellToken(0);
  EXPECT_EQ(choice_.Room(), 16 - 21);
  choice_.Advance();
  EXPECT_EQ(choice_.Room(), 16);
}

}  // namespace
}  // namespace qanat::service
