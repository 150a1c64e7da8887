// Ids of llama.cpp's tokenizer for Gemma 3 270M (Q4_K_M), whose file is under terms of its own and not
// fetched by any script here. QANAT_GEMMA names it.
#include "gtest/gtest.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::golden {
namespace {

TEST(TokenizerGemmaGoldenTest, EncodesAllTextsAsTheReferenceAndBack) {
  const char* path = std::getenv("QANAT_GEMMA");
  ASSERT_NE(path, nullptr) << "QANAT_GEMMA must name gemma-3-270m-q4_k_m.gguf";
  const auto tokenizer = LoadTokenizer(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<TextAndIds> cases = ReadTextsAndIds(GoldenPath("gemma3/tokenizer.jsonl"));
  ASSERT_EQ(cases.size(), 104u);
  for (const TextAndIds& c : cases) {
    EXPECT_EQ((*tokenizer)->Encode(c.text), c.ids) << c.text;
    EXPECT_EQ((*tokenizer)->Decode(c.ids), c.text);
  }
}

}  // namespace
}  // namespace qanat::golden
