// Ids of llama.cpp's tokenizer for the real model.
#include "gtest/gtest.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::golden {
namespace {

TEST(TokenizerGoldenModelTest, EncodesAllTextsAsTheReference) {
  const std::vector<TextAndIds> cases = ReadTextsAndIds(GoldenPath("tokenizer.jsonl"));
  ASSERT_EQ(cases.size(), 104u);
  for (const TextAndIds& c : cases) EXPECT_EQ(RealTokenizer().Encode(c.text), c.ids) << c.text;
}

TEST(TokenizerGoldenModelTest, DecodesToTheTextWhereEveryByteHasAPiece) {
  // Bytes that texts of the file hold and the vocabulary lacks.
  constexpr std::string_view kWithoutPiece = "\x04\xF1";
  int lossy = 0;
  for (const TextAndIds& c : ReadTextsAndIds(GoldenPath("tokenizer.jsonl"))) {
    const bool complete = c.text.find_first_of(kWithoutPiece) == std::string::npos;
    lossy += complete ? 0 : 1;
    EXPECT_EQ(RealTokenizer().Decode(c.ids) == c.text, complete) << c.text;
  }
  EXPECT_EQ(lossy, 3);
}

}  // namespace
}  // namespace qanat::golden
