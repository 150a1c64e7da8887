// A09: a possible beginning of a stop is held back, and not lost when it becomes none. With the real tokens.
#include "gtest/gtest.h"
#include "tests/regress/streamed_answer.h"

namespace qanat {
namespace {

TEST(A09HeldBackTextTest, NothingOfAStopIsSent) {
  const StreamedAnswer stream = StreamAnswer("ABCDEFGHIJKL", {"DEFGHIJ"});
  EXPECT_EQ(stream.Whole(), "ABC");
  EXPECT_EQ(stream.stop, 0);
}

TEST(A09HeldBackTextTest, AStopThatNeverCompletesIsReleased) {
  const StreamedAnswer stream = StreamAnswer("ABCDEFG", {"DEFGHIJ"});
  EXPECT_EQ(stream.Whole(), "ABCDEFG");
  EXPECT_EQ(stream.end, "DEFG");
  EXPECT_EQ(stream.stop, std::nullopt);
  EXPECT_EQ(StreamAnswer("ABCDEFG then", {"DEFGHIJ"}).end, "");
}

}  // namespace
}  // namespace qanat
