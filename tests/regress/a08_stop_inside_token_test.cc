// A08: a stop string begins or ends inside a token. A09: a possible beginning is held back, and not lost.
#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat {
namespace {

// An answer as it streams: what each token releases, and the end.
struct Stream {
  std::vector<std::string> pieces;
  std::string end;
  std::optional<int> stop;

  std::string Whole() const {
    std::string whole;
    for (const std::string& piece : pieces) whole += piece;
    return whole + end;
  }
};

Stream Answer(std::string_view answer, std::vector<std::string> stops) {
  const text::Tokenizer& tokenizer = golden::RealTokenizer();
  text::Detokenizer detokenizer(tokenizer);
  text::StopMatcher matcher(std::move(stops));
  Stream stream;
  for (const TokenId id : tokenizer.Encode(answer)) {
    stream.pieces.push_back(matcher.Feed(detokenizer.Append(id)).text);
    if (matcher.matched()) break;
  }
  stream.end = matcher.Feed(detokenizer.Flush()).text;
  stream.end += matcher.Flush();
  stream.stop = matcher.matched();
  return stream;
}

// The alphabet's tokens are ABC, DEF, G ..
TEST(A08StopInsideTokenTest, AnswerEndsBeforeTheStop) {
  ASSERT_EQ(golden::RealTokenizer().Encode("ABCDEFG").size(), 3u);
  const Stream stream = Answer("ABCDEFG", {"DE"});
  EXPECT_EQ(stream.pieces, (std::vector<std::string>{"ABC", ""}));
  EXPECT_EQ(stream.Whole(), "ABC");
  EXPECT_EQ(stream.stop, 0);
}

TEST(A08StopInsideTokenTest, LetterInsideALongToken) {
  EXPECT_EQ(Answer("The alphabet", {"p"}).Whole(), "The al");
  EXPECT_EQ(Answer("ABCDEFG", {"F", "E"}).Whole(), "ABCD");
  EXPECT_EQ(Answer("ABCDEFG", {"CD"}).Whole(), "AB");
}

TEST(A08StopInsideTokenTest, CharacterOfThreeTokens) {
  const Stream stream = Answer("hot \U0001F525 and cold", {"\U0001F525"});
  EXPECT_EQ(stream.Whole(), "hot ");
  EXPECT_EQ(stream.stop, 0);
}

TEST(A09HeldBackTextTest, NothingOfAStopIsSent) {
  const Stream stream = Answer("ABCDEFGHIJKL", {"DEFGHIJ"});
  EXPECT_EQ(stream.Whole(), "ABC");
  EXPECT_EQ(stream.stop, 0);
}

TEST(A09HeldBackTextTest, StopThatNeverCompletesIsReleased) {
  const Stream stream = Answer("ABCDEFG", {"DEFGHIJ"});
  EXPECT_EQ(stream.Whole(), "ABCDEFG");
  EXPECT_EQ(stream.end, "DEFG");
  EXPECT_EQ(stream.stop, std::nullopt);
  EXPECT_EQ(Answer("ABCDEFG then", {"DEFGHIJ"}).end, "");
}

}  // namespace
}  // namespace qanat
