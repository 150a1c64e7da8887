// A01: digits are isolated before words are found. With GPT-2's rules alone the ids differ while the text
// still comes back, so that nobody notices.
#include "gtest/gtest.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat {
namespace {

using Ids = std::vector<TokenId>;

Ids Encode(std::string_view text) { return golden::RealTokenizer().Encode(text); }

TEST(A01SmollmDigitsTest, BlanksBeforeADigitStayWithEachOther) {
  EXPECT_EQ(Encode("  12"), (Ids{256, 33, 34}));
  EXPECT_EQ(Encode("    4"), (Ids{289, 36}));
  EXPECT_EQ(Encode("\n\n1."), (Ids{1116, 33, 30}));
  EXPECT_EQ(Encode("It costs  5 USD"), (Ids{1589, 3499, 256, 37, 25188}));
}

TEST(A01SmollmDigitsTest, TheRestIsAsEverywhere) {
  EXPECT_EQ(Encode("12345"), (Ids{33, 34, 35, 36, 37}));
  EXPECT_EQ(Encode("3.14"), (Ids{35, 30, 33, 36}));
  EXPECT_EQ(Encode("don't"), (Ids{12420, 982}));
  EXPECT_EQ(Encode("  Hello"), (Ids{216, 38699}));
  EXPECT_EQ(Encode("\n\nHuman:"), (Ids{198, 198, 14917, 42}));
}

TEST(A01SmollmDigitsTest, LengthsThatOtherTestsCountOn) {
  for (const size_t n : {1, 15, 16, 17, 500}) EXPECT_EQ(Encode(std::string(n, '1')).size(), n);
  for (const size_t n : {1, 5, 100}) EXPECT_EQ(Encode(std::string(4 * n, 'a')).size(), n);
}

}  // namespace
}  // namespace qanat
