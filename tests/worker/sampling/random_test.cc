#include "worker/sampling/random.h"

#include "gtest/gtest.h"

namespace qanat::sampling {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers that come with the generator's reference implementation.
TEST(RandomTest, IsPhilox) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, TakesPositionAndChoiceAsCounterAndTheSeedAsKey) {
  EXPECT_EQ(RandomBits({0, 0, 0}), 0xe169c58d6627e8d5);
  const Words words = Philox({5, 2, 0, 0}, {0x89abcdef, 0x01234567});
  EXPECT_EQ(RandomBits({0x0123456789abcdef, 2, 5}), words[0] | uint64_t{words[1]} << 32);
}

}  // namespace
}  // namespace qanat::sampling
