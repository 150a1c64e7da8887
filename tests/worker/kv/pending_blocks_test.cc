#include "worker/kv/pending_blocks.h"

#include <map>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::kv {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class PendingBlocksTest : public testing::Test {
 protected:
  BlockKey Key(hash::BlockHash hash, BlockId parent, const std::vector<TokenId>& tokens) const {
    return {hash, namespace_, parent, tokens};
  }
  PendingBlock Add(hash::BlockHash hash, BlockId parent, BlockId block) {
    pending_.Add(Key(hash, parent, tokens_), block);
    return {hash, block};
  }
  BlockId Find(hash::BlockHash hash, BlockId parent) const {
    return pending_.Find(Key(hash, parent, tokens_));
  }

  hash::Namespace namespace_{{1}};
  std::vector<TokenId> tokens_ = {4, 5};
  PendingBlocks pending_;
};

TEST_F(PendingBlocksTest, FindsATokenRunUponItsParentAlone) {
  Add(11, 3, 7);
  EXPECT_EQ(Find(11, 3), 7);
  EXPECT_EQ(Find(12, 3), kNoBlock);
  EXPECT_EQ(Find(11, 2), kNoBlock) << "another parent";
  EXPECT_EQ(pending_.Find(Key(11, 3, {4, 6})), kNoBlock) << "other tokens";
  const hash::Namespace other{{2}};
  EXPECT_EQ(pending_.Find({11, other, 3, tokens_}), kNoBlock) << "another tenant";
}

TEST_F(PendingBlocksTest, TheFirstOfTwoCopiesIsFoundAndOnlyItsOwnerRemovesIt) {
  const PendingBlock first = Add(11, kNoBlock, 7);
  const PendingBlock second = Add(11, kNoBlock, 8);
  EXPECT_EQ(Find(11, kNoBlock), 7);
  pending_.Remove({second});
  EXPECT_EQ(Find(11, kNoBlock), 7);
  pending_.Remove({first});
  EXPECT_EQ(Find(11, kNoBlock), kNoBlock);
}

TEST_F(PendingBlocksTest, WithdrawsWhatIsComputedUponTheWithdrawn) {
  const PendingBlock first = Add(1, kNoBlock, 10);
  Add(2, 10, 20);
  Add(3, 20, 30);
  Add(4, kNoBlock, 40);  // of someone else
  EXPECT_THAT(pending_.Withdraw({first}), UnorderedElementsAre(10, 20, 30));
  EXPECT_EQ(pending_.size(), 1);
  EXPECT_EQ(Find(4, kNoBlock), 40);
}

// Whoever found it before it was removed may still hold it.
TEST_F(PendingBlocksTest, WithdrawsBlocksThatAreNotFoundAnyMore) {
  EXPECT_THAT(pending_.Withdraw({PendingBlock{1, 10}}), UnorderedElementsAre(10));
  EXPECT_THAT(pending_.Withdraw({}), IsEmpty());
}

TEST_F(PendingBlocksTest, IsAMapOfHashesAndAForestOfBlocks) {
  std::mt19937_64 random(3);
  std::map<hash::BlockHash, std::pair<BlockId, BlockId>> twin;  // to block and parent
  BlockId next = 0;
  for (int i = 0; i < 20000; ++i) {
    const hash::BlockHash hash = random() % 40;
    if (random() % 3 != 0) {
      const BlockId parent =
          next == 0 ? kNoBlock : static_cast<BlockId>(next - 1 - random() % std::min(next, 8));
      Add(hash, parent, next);
      twin.try_emplace(hash, next++, parent);
    } else if (const auto it = twin.find(hash); it == twin.end()) {
      EXPECT_FALSE(pending_.Contains(hash));
    } else if (random() % 2 == 0) {
      pending_.Remove({PendingBlock{hash, it->second.first}});
      twin.erase(it);
    } else {
      std::set<BlockId> expected = {it->second.first};
      const auto withdrawn = pending_.Withdraw({PendingBlock{hash, it->second.first}});
      twin.erase(it);
      // Blocks are numbered in the order in which they came, children after their parents.
      std::map<BlockId, hash::BlockHash> by_block;
      for (const auto& [other, entry] : twin) by_block.emplace(entry.first, other);
      for (const auto& [block, other] : by_block) {
        if (!expected.contains(twin.at(other).second)) continue;
        expected.insert(block);
        twin.erase(other);
      }
      EXPECT_EQ(std::set<BlockId>(withdrawn.begin(), withdrawn.end()), expected);
    }
    ASSERT_EQ(pending_.size(), static_cast<int32_t>(twin.size()));
    for (const auto& [other, entry] : twin) ASSERT_EQ(Find(other, entry.second), entry.first);
  }
}

}  // namespace
}  // namespace qanat::kv
