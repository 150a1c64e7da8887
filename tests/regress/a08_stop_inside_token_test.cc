// A08: a stop string begins or ends inside a token.
#include "gtest/gtest.h"
#include "tests/regress/streamed_answer.h"

namespace qanat {
namespace {

// The alphabet's tokens are ABC, DEF, G ..
TEST(A08StopInsideTokenTest, AnswerEndsBeforeTheStop) {
  ASSERT_EQ(golden::RealTokenizer().Encode("ABCDEFG").size(), 3u);
  const StreamedAnswer stream = StreamAnswer("ABCDEFG", {"DE"});
  EXPECT_EQ(stream.pieces, (std::vector<std::string>{"ABC", ""}));
  EXPECT_EQ(stream.Whole(), "ABC");
  EXPECT_EQ(stream.stop, 0);
}

TEST(A08StopInsideTokenTest, LetterInsideALongToken) {
  EXPECT_EQ(StreamAnswer("The alphabet", {"p"}).Whole(), "The al");
  EXPECT_EQ(StreamAnswer("ABCDEFG", {"F", "E"}).Whole(), "ABCD");
  EXPECT_EQ(StreamAnswer("ABCDEFG", {"CD"}).Whole(), "AB");
}

TEST(A08StopInsideTokenTest, CharacterOfThreeTokens) {
  const StreamedAnswer stream = StreamAnswer("hot \U0001F525 and cold", {"\U0001F525"});
  EXPECT_EQ(stream.Whole(), "hot ");
  EXPECT_EQ(stream.stop, 0);
}

}  // namespace
}  // namespace qanat
