// A06: a character made of several tokens comes whole. A07: one that is never completed is one U+FFFD at the
// end.
#include "common/text/detokenizer.h"
#include "common/text/utf8.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat {
namespace {

using Ids = std::vector<TokenId>;

TEST(A06SplitCharactersTest, FireComesWithItsLastToken) {
  const text::Tokenizer& tokenizer = golden::RealTokenizer();
  const std::string fire = "\U0001F525";
  Ids expected = {10813, 238, 115};
  std::string prompt = fire;
  for (int i = 1; i < 8; ++i) {
    prompt += " " + fire;
    expected.insert(expected.end(), {15107, 238, 115});
  }
  const Ids ids = tokenizer.Encode(prompt);
  ASSERT_EQ(ids, expected);
  text::Detokenizer detokenizer(tokenizer);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string piece = detokenizer.Append(ids[i]);
    switch (i % 3) {
      case 0:
        EXPECT_EQ(piece, i == 0 ? "" : " ");
        break;
      case 1:
        EXPECT_EQ(piece, "");
        break;
      default:
        EXPECT_EQ(piece, fire);
    }
  }
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(A07UnfinishedCharacterTest, IsOneReplacementAtTheEnd) {
  const text::Tokenizer& tokenizer = golden::RealTokenizer();
  for (const Ids& ids : {Ids{10813}, Ids{10813, 238}, Ids{188}}) {
    ASSERT_FALSE(text::IsValidUtf8(tokenizer.Bytes(ids[0])));
    text::Detokenizer detokenizer(tokenizer);
    std::string streamed;
    for (const TokenId id : ids) streamed += detokenizer.Append(id);
    streamed += detokenizer.Flush();
    EXPECT_EQ(streamed, text::kReplacement);
    EXPECT_EQ(tokenizer.Decode(ids), text::kReplacement);
  }
}

}  // namespace
}  // namespace qanat
