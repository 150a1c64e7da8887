#include "common/base/pool_tokens.h"

#include <random>
#include <set>
#include <utility>

#include "gtest/gtest.h"

namespace qanat {
namespace {

// Blocks by who has them, counted one by one: a block of the prompt that all share is the first choice's.
int64_t CountBlocks(const PoolDemand& demand, int64_t block_size, bool share_prompt) {
  std::set<std::pair<int64_t, int64_t>> blocks;
  for (int64_t choice = 0; choice < demand.choices; ++choice) {
    for (int64_t token = 0; token < demand.prompt + demand.output; ++token) {
      const int64_t block = token / block_size;
      // The last token of the prompt is computed by each, and with it its block.
      const bool shared = share_prompt && (block + 1) * block_size <= demand.prompt - 1;
      blocks.emplace(shared ? 0 : choice, block);
    }
  }
  return static_cast<int64_t>(blocks.size());
}

TEST(PoolTokensTest, FitsWhereTheBlocksDo) {
  std::mt19937 random(3);
  const auto draw = [&](uint32_t most) { return 1 + static_cast<int64_t>(random() % most); };
  for (int round = 0; round < 2000; ++round) {
    const int64_t block_size = draw(17);
    const PoolDemand demand{.prompt = draw(70), .output = draw(40), .choices = draw(5)};
    for (const bool share : {false, true}) {
      const int64_t blocks = CountBlocks(demand, block_size, share);
      const int64_t tokens = PoolTokens(demand, block_size, share);
      EXPECT_LE(tokens, blocks * block_size);
      EXPECT_GT(tokens, (blocks - 1) * block_size);
    }
  }
}

TEST(PoolTokensTest, OneChoiceTakesItsTokens) {
  EXPECT_EQ(PoolTokens({.prompt = 20, .output = 45}, 16), 65);
  EXPECT_EQ(PoolTokens({.prompt = 20, .output = 45}, 16, false), 65);
}

}  // namespace
}  // namespace qanat
