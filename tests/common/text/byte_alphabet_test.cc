#include "common/text/byte_alphabet.h"

#include "gtest/gtest.h"
#include "tests/fakes/byte_level_vocabulary.h"

namespace qanat::text {
namespace {

TEST(ByteAlphabetTest, KnownLetters) {
  EXPECT_EQ(FromByteAlphabet("ĠHello"), " Hello");
  EXPECT_EQ(FromByteAlphabet("ĊĉčĀ"), std::string("\n\t\r\0", 4));
  EXPECT_EQ(FromByteAlphabet("æ°´"), "\u6C34");
  EXPECT_EQ(FromByteAlphabet(""), "");
}

TEST(ByteAlphabetTest, EveryByteHasItsLetter) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    EXPECT_EQ(FromByteAlphabet(fakes::ToByteAlphabet(bytes)), bytes);
  }
}

TEST(ByteAlphabetTest, RefusesWhatIsNoLetter) {
  for (const char* text :
       {" ", "a b", "\n", "\u00A0", "\u00AD", "\u0144", "\u6C34", "\u2581", "\xC4", "\xA0", "\xC0\x80"}) {
    EXPECT_EQ(FromByteAlphabet(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace qanat::text
