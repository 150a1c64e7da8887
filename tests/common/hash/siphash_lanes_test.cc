#include "common/hash/siphash_lanes.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::hash {
namespace {

TEST(SipLanesTest, EachLaneIsTheHashOfItsMessage) {
  std::mt19937_64 random(5);
  for (const int num_words : {0, 1, 2, 8, 16, 31}) {
    std::vector<uint64_t> words(static_cast<size_t>(num_words) * kLanes + 1);
    for (uint64_t& word : words) word = random();
    const HashKey key = {random(), random()};
    // Tokens need not lie on a word's border.
    const char* const bytes = reinterpret_cast<const char*>(words.data()) + 4;
    for (const TakeInWay way : TakeInWays()) {
      SipLanes states;
      way(key, bytes, num_words, states);
      EXPECT_EQ(TakeIn(key, bytes, num_words).v, states.v);
      for (int lane = 0; lane < kLanes; ++lane) {
        SipHash13 expected(key);
        for (int w = 0; w < num_words; ++w) {
          uint64_t word;
          std::memcpy(&word, bytes + (lane * num_words + w) * 8, 8);
          expected.Word(word);
        }
        EXPECT_EQ(states.State(lane).state(), expected.state()) << num_words << " words, lane " << lane;
      }
    }
  }
}

}  // namespace
}  // namespace qanat::hash
