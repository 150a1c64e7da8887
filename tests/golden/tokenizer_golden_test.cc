// Ids of llama.cpp's tokenizer for small vocabularies of both kinds of pre-tokenizer.

#include "gtest/gtest.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::golden {
namespace {

struct Model {
  const char* file;
  const char* ids;
};

class TokenizerGoldenTest : public testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    auto tokenizer = LoadTokenizer(GoldenPath(GetParam().file));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    cases_ = ReadTextsAndIds(GoldenPath(GetParam().ids));
    ASSERT_EQ(cases_.size(), 40u);
  }

  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::vector<TextAndIds> cases_;
};

TEST_P(TokenizerGoldenTest, EncodesAsTheReference) {
  for (const TextAndIds& c : cases_) EXPECT_EQ(tokenizer_->Encode(c.text), c.ids) << c.text;
}

TEST_P(TokenizerGoldenTest, DecodesToTheText) {
  for (const TextAndIds& c : cases_) EXPECT_EQ(tokenizer_->Decode(c.ids), c.text);
}

INSTANTIATE_TEST_SUITE_P(Tiny, TokenizerGoldenTest,
                         testing::Values(Model{"tiny/llama-yarn.gguf", "tiny/tokenizer_smollm.jsonl"},
                                         Model{"tiny/llama256-q4_1.gguf", "tiny/tokenizer_llama-bpe.jsonl"}),
                         [](const auto& info) { return info.index == 0 ? "Smollm" : "LlamaBpe"; });

// Tokens that no merge leads to: one family's rules look a whole word up first, the other's do not.
TEST(TokenizerGoldenRuleTest, WholeWordsComeFirstOnlyWhereTheFamilySaysSo) {
  const auto llama = LoadTokenizer(GoldenPath("tiny/llama256-q4_1.gguf"));
  const auto smollm = LoadTokenizer(GoldenPath("tiny/llama-yarn.gguf"));
  ASSERT_TRUE(llama.ok() && smollm.ok());
  for (const char* word : {" hydrology", " aqueduct"}) {
    EXPECT_EQ((*llama)->Encode(word).size(), 1u) << word;
    EXPECT_GT((*smollm)->Encode(word).size(), 1u) << word;
  }
}

}  // namespace
}  // namespace qanat::golden
