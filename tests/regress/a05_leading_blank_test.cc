// A05: byte-level BPE keeps the blank that a token begins with.
#include "common/text/detokenizer.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat {
namespace {

TEST(A05LeadingBlankTest, FirstTokenKeepsIt) {
  const text::Tokenizer& tokenizer = golden::RealTokenizer();
  EXPECT_EQ(tokenizer.Decode({38699}), " Hello");
  EXPECT_EQ(text::Detokenizer(tokenizer).Append(38699), " Hello");
}

TEST(A05LeadingBlankTest, StreamEqualsTheWholeForEveryGoldenText) {
  const text::Tokenizer& tokenizer = golden::RealTokenizer();
  for (const golden::TextAndIds& c : golden::ReadTextsAndIds(golden::GoldenPath("tokenizer.jsonl"))) {
    text::Detokenizer detokenizer(tokenizer);
    std::string streamed;
    for (const TokenId id : c.ids) streamed += detokenizer.Append(id);
    streamed += detokenizer.Flush();
    EXPECT_EQ(streamed, tokenizer.Decode(c.ids));
  }
}

}  // namespace
}  // namespace qanat
