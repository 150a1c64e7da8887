#include "worker/kv/kv_manager.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::kv {
namespace {

using ::testing::ElementsAre;
using Tokens = std::vector<TokenId>;

Tokens Range(TokenId first, int count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class KvManagerTest : public testing::Test {
 protected:
  static constexpr int32_t kBlockSize = 4;

  BlockTable NewTable() { return kv_.NewTable(namespace_); }
  // As one generation does: hit, reserve, compute, publish.
  BlockTable Computed(const Tokens& tokens) {
    BlockTable table = NewTable();
    kv_.Attach(table, kv_.Match(table, tokens));
    EXPECT_TRUE(kv_.Reserve(table, static_cast<int32_t>(tokens.size())));
    kv_.Commit(table, tokens);
    kv_.CheckTable(table, tokens);
    return table;
  }
  int32_t HitBlocks(const Tokens& tokens) {
    BlockTable table = NewTable();
    return static_cast<int32_t>(kv_.Match(table, tokens).blocks.size());
  }
  void Check(std::initializer_list<const BlockTable*> tables) {
    kv_.CheckInvariants(std::vector<const BlockTable*>(tables));
  }

  hash::Namespace namespace_{{7}};
  hash::BlockHasher hasher_{hash::kPublicKey, "model", kBlockSize};
  KvManager kv_{8, true, hasher_};
};

TEST_F(KvManagerTest, ReserveCoversTheTokensAndNoMore) {
  BlockTable table = NewTable();
  EXPECT_TRUE(kv_.Reserve(table, 1));
  EXPECT_EQ(table.size(), 1);
  EXPECT_TRUE(kv_.Reserve(table, 4));
  EXPECT_EQ(table.size(), 1);
  EXPECT_TRUE(kv_.Reserve(table, 5));
  EXPECT_EQ(table.size(), 2);
  Check({&table});
}

TEST_F(KvManagerTest, ReserveTakesNothingWhenThePoolHasTooFew) {
  BlockTable big = NewTable();
  ASSERT_TRUE(kv_.Reserve(big, 6 * kBlockSize));
  BlockTable table = NewTable();
  EXPECT_FALSE(kv_.Reserve(table, 3 * kBlockSize));
  EXPECT_EQ(table.size(), 0);
  EXPECT_EQ(kv_.pool().num_unreferenced(), 2);
}

TEST_F(KvManagerTest, ADyingTableGivesItsBlocksBack) {
  { const BlockTable table = Computed(Range(0, 10)); }
  EXPECT_EQ(kv_.pool().num_referenced(), 0);
  EXPECT_EQ(kv_.pool().num_cached(), 2) << "the full ones";
  Check({});
}

TEST_F(KvManagerTest, MatchLeavesOneTokenToCompute) {
  { const BlockTable table = Computed(Range(0, 12)); }
  EXPECT_EQ(HitBlocks(Range(0, 12)), 2);
  EXPECT_EQ(HitBlocks(Range(0, 13)), 3);
  EXPECT_EQ(HitBlocks(Range(0, 9)), 2);
  EXPECT_EQ(HitBlocks(Range(0, 8)), 1);
  EXPECT_EQ(HitBlocks(Range(0, 1)), 0);
}

TEST_F(KvManagerTest, MatchEndsAtTheFirstOtherToken) {
  { const BlockTable table = Computed(Range(0, 12)); }
  Tokens tokens = Range(0, 20);
  tokens[5] = 99;
  EXPECT_EQ(HitBlocks(tokens), 1);
}

TEST_F(KvManagerTest, MatchCountsWhatAttachingTakesFromTheFreeList) {
  const Tokens tokens = Range(0, 9);
  BlockTable table = Computed(tokens);
  BlockTable other = NewTable();
  EXPECT_EQ(kv_.Match(other, tokens).num_unreferenced, 0);
  kv_.Release(table);
  const PrefixMatch match = kv_.Match(other, tokens);
  EXPECT_EQ(match.num_unreferenced, 2);
  const int32_t before = kv_.pool().num_unreferenced();
  kv_.Attach(other, match);
  EXPECT_EQ(kv_.pool().num_unreferenced(), before - 2);
}

TEST_F(KvManagerTest, OtherNamespacesShareNothing) {
  const Tokens tokens = Range(0, 9);
  const BlockTable table = Computed(tokens);
  BlockTable other = kv_.NewTable(hash::Namespace{{8}});
  EXPECT_TRUE(kv_.Match(other, tokens).blocks.empty());
}

TEST_F(KvManagerTest, WithoutPrefixCacheNothingIsPublished) {
  KvManager kv(8, false, hasher_);
  BlockTable table = kv.NewTable(namespace_);
  ASSERT_TRUE(kv.Reserve(table, 9));
  kv.Commit(table, Range(0, 9));
  EXPECT_EQ(table.num_published(), 0);
  EXPECT_EQ(kv.num_resident(), 0);
  BlockTable other = kv.NewTable(namespace_);
  EXPECT_TRUE(kv.Match(other, Range(0, 9)).blocks.empty());
}

// Rule 1 of the four that keep residency prefix-closed.
TEST_F(KvManagerTest, CommitAdoptsWhatAnotherPublishedFirst) {
  const Tokens tokens = Range(0, 9);
  BlockTable first = NewTable();
  BlockTable second = NewTable();
  ASSERT_TRUE(kv_.Reserve(first, 9));
  ASSERT_TRUE(kv_.Reserve(second, 9));
  kv_.Commit(first, tokens);
  ASSERT_NE(first.blocks()[0], second.blocks()[0]);
  const int32_t before = kv_.pool().num_free();
  kv_.Commit(second, tokens);
  EXPECT_EQ(first.blocks()[0], second.blocks()[0]);
  EXPECT_EQ(first.blocks()[1], second.blocks()[1]);
  EXPECT_NE(first.blocks()[2], second.blocks()[2]) << "the unfinished block stays its own";
  EXPECT_EQ(kv_.pool().num_free(), before + 2) << "its copies are given back";
  Check({&first, &second});
}

TEST_F(KvManagerTest, AnAdoptedBlockMayComeFromTheFreeList) {
  const Tokens tokens = Range(0, 9);
  BlockTable second = NewTable();
  ASSERT_TRUE(kv_.Reserve(second, 9));
  { const BlockTable first = Computed(tokens); }
  kv_.Commit(second, tokens);
  EXPECT_EQ(kv_.pool().num_cached(), 0);
  EXPECT_EQ(kv_.num_resident(), 2);
  Check({&second});
}

// The other half of rule 1, and rule 2.
TEST_F(KvManagerTest, AfterACollisionNothingMoreIsPublished) {
  const Tokens tokens = Range(0, 8);
  const BlockTable victim = Computed(tokens);
  // The same hashes in another namespace: what a collision of the root would be.
  const hash::Namespace other{{8}};
  BlockTable table(other, hasher_.Root(namespace_));
  const Tokens longer = Range(0, 16);
  EXPECT_TRUE(kv_.Match(table, longer).blocks.empty());
  ASSERT_TRUE(kv_.Reserve(table, 16));
  kv_.Commit(table, absl::MakeConstSpan(longer).first(8));
  kv_.Commit(table, longer);
  EXPECT_EQ(table.num_published(), 0);
  EXPECT_EQ(kv_.num_resident(), 2) << "only the victim's";
  Check({&victim, &table});
}

TEST_F(KvManagerTest, PublishesAgainAfterARelease) {
  const Tokens tokens = Range(0, 8);
  BlockTable table(hash::Namespace{{8}}, hasher_.Root(namespace_));
  {
    const BlockTable victim = Computed(tokens);
    ASSERT_TRUE(kv_.Reserve(table, 8));
    kv_.Commit(table, tokens);
    ASSERT_EQ(table.num_published(), 0);
    kv_.Release(table);
  }
  BlockTable filler = NewTable();
  ASSERT_TRUE(kv_.Reserve(filler, 8 * kBlockSize));  // evicts the collision
  kv_.Release(filler);
  ASSERT_TRUE(kv_.Reserve(table, 8));
  kv_.Commit(table, tokens);
  EXPECT_EQ(table.num_published(), 2);
}

// Rule 3.
TEST_F(KvManagerTest, ChildrenAreEvictedBeforeTheirParents) {
  const Tokens tokens = Range(0, 16);
  { const BlockTable table = Computed(tokens); }
  BlockTable filler = NewTable();
  for (int taken = 5; taken <= 8; ++taken) {
    ASSERT_TRUE(kv_.Reserve(filler, taken * kBlockSize));
    EXPECT_EQ(kv_.num_resident(), 8 - taken);
    EXPECT_EQ(HitBlocks(Range(0, 17)), 8 - taken) << "what is left is a prefix";
    Check({&filler});
  }
  EXPECT_EQ(kv_.num_evictions(), 4);
}

// Rule 4.
TEST_F(KvManagerTest, ADeltaIsTheNetChangeSinceTheLastOne) {
  const std::vector<hash::BlockHash> first = hasher_.HashPrompt(namespace_, Range(0, 12));
  { const BlockTable table = Computed(Range(0, 12)); }
  hash::SetDelta delta = kv_.TakeDelta();
  EXPECT_EQ(delta.stored, first) << "parents before their children";
  EXPECT_TRUE(delta.removed.empty());
  EXPECT_TRUE(kv_.TakeDelta().empty());
  // Everything goes for a prefix that goes, too; then two blocks of the first come back.
  { const BlockTable table = Computed(Range(100, 8 * kBlockSize)); }
  { const BlockTable table = Computed(Range(0, 8)); }
  delta = kv_.TakeDelta();
  const std::vector<hash::BlockHash> second = hasher_.HashPrompt(namespace_, Range(100, 8 * kBlockSize));
  EXPECT_THAT(delta.stored, testing::ElementsAreArray(second.begin(), second.begin() + 6));
  EXPECT_THAT(delta.removed, ElementsAre(first[2]));
}

TEST_F(KvManagerTest, TheLeastRecentlyUsedPrefixGoesFirst) {
  { const BlockTable table = Computed(Range(0, 8)); }
  { const BlockTable table = Computed(Range(100, 8)); }
  { const BlockTable table = Computed(Range(0, 9)); }  // used again
  BlockTable filler = NewTable();
  ASSERT_TRUE(kv_.Reserve(filler, 6 * kBlockSize));
  EXPECT_EQ(HitBlocks(Range(100, 9)), 0);
  EXPECT_EQ(HitBlocks(Range(0, 9)), 2);
}

TEST_F(KvManagerTest, BlocksWithoutContentsAreReusedBeforeCachedOnes) {
  { const BlockTable table = Computed(Range(0, 8)); }
  BlockTable filler = NewTable();
  ASSERT_TRUE(kv_.Reserve(filler, 6 * kBlockSize));
  EXPECT_EQ(kv_.num_evictions(), 0);
  kv_.Release(filler);
  ASSERT_TRUE(kv_.Reserve(filler, 6 * kBlockSize));
  EXPECT_EQ(kv_.num_evictions(), 0);
}

TEST_F(KvManagerTest, HashesAreTheChainOfTheHasher) {
  BlockTable table = NewTable();
  const Tokens tokens = Range(3, 11);
  const auto expected = hasher_.HashPrompt(namespace_, tokens);
  EXPECT_THAT(kv_.Hashes(table, tokens), ElementsAre(expected[0], expected[1]));
  const Tokens longer = Range(3, 12);
  EXPECT_THAT(kv_.Hashes(table, longer),
              ElementsAre(expected[0], expected[1], hasher_.HashPrompt(namespace_, longer)[2]));
}

TEST_F(KvManagerTest, PublishedBlocksAreShared) {
  const BlockTable table = Computed(Range(0, 6));
  EXPECT_TRUE(kv_.Shared(table.blocks()[0]));
  EXPECT_FALSE(kv_.Shared(table.blocks()[1]));
  EXPECT_TRUE(kv_.Exclusive(table.blocks()[0])) << "though published, only this table holds it";
}

// A device that takes several steps: what one computes the next may read.
class KvManagerInFlightTest : public KvManagerTest {
 protected:
  // A step was launched that computes all of `tokens` that the cache lacks.
  struct Row {
    BlockTable table;
    Tokens tokens;
    std::vector<PendingBlock> announced;
  };
  Row Launch(const Tokens& tokens, bool reads_cache = true) {
    Row row{NewTable(), tokens, {}};
    PrefixMatch match;
    if (reads_cache) match = kv_.Match(row.table, tokens);
    kv_.Attach(row.table, match);
    EXPECT_TRUE(kv_.Reserve(row.table, static_cast<int32_t>(tokens.size())));
    kv_.OnLaunch();
    row.announced = kv_.Announce(row.table, tokens, static_cast<int32_t>(match.blocks.size()) * kBlockSize);
    return row;
  }
  void Collect(Row& row, bool flying = false) {
    kv_.OnCollect();
    kv_.Settle(row.announced);
    kv_.Commit(row.table, row.tokens, flying);
  }
};

TEST_F(KvManagerInFlightTest, ABlockIsHitWhileAStepComputesItAndReportedAfterwards) {
  Row first = Launch(Range(0, 10));
  EXPECT_EQ(HitBlocks(Range(0, 20)), 2) << "the full ones";
  EXPECT_EQ(kv_.num_resident(), 0);
  EXPECT_TRUE(kv_.TakeDelta().empty());
  Row second = Launch(Range(0, 14));
  EXPECT_EQ(second.table.num_found(), 2);
  EXPECT_EQ(second.table.num_published(), 0);
  EXPECT_THAT(second.table.blocks().first(2), ElementsAre(first.table.blocks()[0], first.table.blocks()[1]));
  Check({&first.table, &second.table});
  Collect(first);
  EXPECT_EQ(kv_.num_resident(), 2);
  Collect(second);
  EXPECT_EQ(kv_.num_resident(), 3);
  kv_.CheckTable(second.table, second.tokens);
  Check({&first.table, &second.table});
}

// Who found a block publishes it when the one that computed it has left.
TEST_F(KvManagerInFlightTest, ABlockOutlivesTheOneThatComputedIt) {
  Row first = Launch(Range(0, 10));
  Row second = Launch(Range(0, 14));
  kv_.Release(first.table, true);
  kv_.OnCollect();
  kv_.Settle(first.announced);
  EXPECT_EQ(kv_.num_resident(), 0);
  Collect(second);
  EXPECT_EQ(kv_.num_resident(), 3);
  Check({&second.table});
}

TEST_F(KvManagerInFlightTest, WithdrawingNamesAllThatWasComputedUponABlock) {
  Row first = Launch(Range(0, 10));
  Row second = Launch(Range(0, 14));
  const auto withdrawn = kv_.Withdraw(first.announced);
  EXPECT_EQ(withdrawn.size(), 3u);
  for (const BlockId block : second.table.blocks().first(3)) EXPECT_TRUE(withdrawn.contains(block));
  EXPECT_EQ(HitBlocks(Range(0, 20)), 0);
}

TEST_F(KvManagerInFlightTest, ReleasedBlocksAreNobodysWhenTheLastStepInFlightIsDone) {
  Row first = Launch(Range(0, 10));
  Row second = Launch(Range(100, 4));
  EXPECT_FALSE(kv_.HasRetired());
  kv_.Release(first.table, true);
  EXPECT_TRUE(kv_.HasRetired());
  EXPECT_EQ(kv_.pool().num_referenced(), 4);
  Check({&second.table});
  kv_.OnCollect();
  kv_.Settle(first.announced);
  EXPECT_EQ(kv_.pool().num_referenced(), 4) << "the second step may use them as well";
  Collect(second);
  EXPECT_EQ(kv_.pool().num_referenced(), 1);
  EXPECT_FALSE(kv_.HasRetired());
}

TEST_F(KvManagerInFlightTest, WhatIsAdoptedFreesTheOwnCopyAfterTheStepsInFlight) {
  Row first = Launch(Range(0, 4));
  Row twin = Launch(Range(0, 4), false);
  Row later = Launch(Range(50, 4));
  Collect(first);
  const BlockId own = twin.table.blocks()[0];
  Collect(twin, true);
  EXPECT_EQ(twin.table.blocks()[0], first.table.blocks()[0]);
  EXPECT_EQ(kv_.pool().count(own), 1) << "a step in flight may read it";
  Collect(later);
  EXPECT_EQ(kv_.pool().count(own), 0);
}

// Two compute the same block, and a third has found the second's: its references would not keep the first's
// from being reused, so nothing is published upon that.
TEST_F(KvManagerInFlightTest, NobodyAdoptsInPlaceOfWhatOthersFound) {
  Row found = Launch(Range(0, 8));
  Row finder = Launch(Range(0, 12));
  Row twin = Launch(Range(0, 4), false);
  kv_.OnCollect();
  kv_.Settle(found.announced);
  // The twin is first, as a row before it in one step would be.
  kv_.Commit(twin.table, twin.tokens);
  kv_.Commit(found.table, found.tokens);
  EXPECT_EQ(kv_.num_resident(), 1);
  Collect(finder);
  EXPECT_EQ(kv_.num_resident(), 1);
  kv_.OnCollect();
  kv_.Settle(twin.announced);
  Check({&found.table, &finder.table, &twin.table});
  kv_.Release(twin.table);
  kv_.Release(found.table);
  Check({&finder.table});
}

}  // namespace
}  // namespace qanat::kv
