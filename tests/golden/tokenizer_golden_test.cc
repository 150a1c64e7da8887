// Ids of llama.cpp's tokenizer for a small vocabulary of each kind.
#include "gtest/gtest.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::golden {
namespace {

struct Model {
  const char* name;
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

INSTANTIATE_TEST_SUITE_P(
    Tiny, TokenizerGoldenTest,
    testing::Values(Model{"Gpt2", "tiny/llama-linear.gguf", "tiny/tokenizer_gpt-2.jsonl"},
                    Model{"LlamaBpe", "tiny/llama256-q4_1.gguf", "tiny/tokenizer_llama-bpe.jsonl"},
                    Model{"Qwen2", "tiny/qwen3-tied.gguf", "tiny/tokenizer_qwen2.jsonl"},
                    Model{"SentencePiece", "tiny/gemma3.gguf", "tiny/tokenizer_spm.jsonl"},
                    Model{"Smollm", "tiny/llama-yarn.gguf", "tiny/tokenizer_smollm.jsonl"}),
    [](const auto& info) { return info.param.name; });

// Tokens that no merge leads to: one family's rules look a whole word up first, the others' do not.
TEST(TokenizerGoldenRuleTest, WholeWordsComeFirstOnlyWhereTheFamilySaysSo) {
  const auto llama = LoadTokenizer(GoldenPath("tiny/llama256-q4_1.gguf"));
  ASSERT_TRUE(llama.ok());
  for (const char* word : {" hydrology", " aqueduct"}) {
    EXPECT_EQ((*llama)->Encode(word).size(), 1u) << word;
    for (const char* file : {"tiny/llama-yarn.gguf", "tiny/llama-linear.gguf", "tiny/qwen3-tied.gguf"}) {
      const auto other = LoadTokenizer(GoldenPath(file));
      ASSERT_TRUE(other.ok());
      EXPECT_GT((*other)->Encode(word).size(), 1u) << word << " " << file;
    }
  }
}

}  // namespace
}  // namespace qanat::golden
