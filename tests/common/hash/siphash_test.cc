#include "common/hash/siphash.h"

#include <string>

#include "gtest/gtest.h"

namespace qanat::hash {
namespace {

// 00 01 02 ..
std::string Counting(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i);
  return text;
}

// The authors' vectors (vectors.h of the reference code): key 00..0f, message 00..(n-1).
TEST(SipHashTest, TwoFourGivesThePublishedVectors) {
  constexpr HashKey kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  constexpr uint64_t kExpected[] = {0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a,
                                    0x85676696d7fb7e2d, 0xcf2794e0277187b7, 0x18765564cd99a68d,
                                    0xcbc9466e58fee3ce, 0xab0200f58b01d137, 0x93f5f5799a932462};
  for (size_t n = 0; n < std::size(kExpected); ++n) {
    EXPECT_EQ(HashBytes<SipHash24>(kKey, Counting(n)), kExpected[n]) << n;
  }
  EXPECT_EQ(HashBytes<SipHash24>(kKey, Counting(15)), 0xa129ca6149be45e5);
}

// Values of CPython 3.11, which hashes bytes with SipHash-1-3; PYTHONHASHSEED=0 makes its key zero.
TEST(SipHashTest, OneThreeAgreesWithPython) {
  struct Case {
    size_t length;
    uint64_t hash;
  };
  constexpr Case kCases[] = {{1, 0x68a914128e01e473},  {2, 0x010bac45c41e3669},   {3, 0x4d4c9a4a8ef6e0ad},
                             {7, 0x2f098ab0c751325a},  {8, 0xead411e67ebe2eea},   {9, 0x75927f9d95124362},
                             {15, 0xf30eb725bb91c9ea}, {16, 0x8972188433a5c5b7},  {63, 0x385d3e39e5f37359},
                             {64, 0x75e05fd5bbc870c6}, {255, 0x5dc1f93ea135eb43}, {256, 0x31ae646afba70308},
                             {300, 0x4a3ee92cf03a1ab4}};
  for (const Case& c : kCases) {
    EXPECT_EQ(HashBytes<SipHash13>(HashKey{}, Counting(c.length)), c.hash) << c.length;
  }
}

TEST(SipHashTest, EveryBitOfTheKeyCounts) {
  const std::string message = Counting(20);
  const uint64_t base = HashBytes<SipHash13>(HashKey{}, message);
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_NE(HashBytes<SipHash13>(HashKey{uint64_t{1} << bit, 0}, message), base);
    EXPECT_NE(HashBytes<SipHash13>(HashKey{0, uint64_t{1} << bit}, message), base);
  }
}

}  // namespace
}  // namespace qanat::hash
