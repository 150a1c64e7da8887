#include "worker/kv/block_pool.h"

#include <deque>
#include <optional>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/kv/lru_order.h"

namespace qanat::kv {
namespace {

using ::testing::ElementsAre;

BlockPool MakePool(int32_t num_blocks) { return {num_blocks, std::make_unique<LruOrder>(num_blocks)}; }

TEST(BlockPoolTest, EveryBlockIsFreeAtFirst) {
  BlockPool pool = MakePool(3);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_EQ(pool.num_cached(), 0);
  EXPECT_EQ(pool.num_referenced(), 0);
  EXPECT_THAT(pool.order().ToVector(), ElementsAre(0, 1, 2));
}

TEST(BlockPoolTest, ABlockIsReusedOnlyWhenItsLastReferenceIsGone) {
  BlockPool pool = MakePool(1);
  std::optional<BlockRef> first = pool.Take();
  std::optional<BlockRef> second = pool.Share(first->id());
  EXPECT_EQ(pool.count(0), 2);
  first.reset();
  EXPECT_EQ(pool.num_unreferenced(), 0);
  second.reset();
  EXPECT_EQ(pool.num_unreferenced(), 1);
}

TEST(BlockPoolTest, TakingMovesTheGenerationAndSharingDoesNot) {
  BlockPool pool = MakePool(1);
  { const BlockRef ref = pool.Take(); }
  const uint64_t generation = pool.generation(0);
  { const BlockRef ref = pool.Share(0); }
  EXPECT_EQ(pool.generation(0), generation);
  { const BlockRef ref = pool.Take(); }
  EXPECT_EQ(pool.generation(0), generation + 1);
}

TEST(BlockPoolTest, AMovedReferenceCountsOnce) {
  BlockPool pool = MakePool(2);
  BlockRef a = pool.Take();
  BlockRef b = std::move(a);
  EXPECT_EQ(pool.count(b.id()), 1);
  BlockRef c = pool.Take();
  c = std::move(b);
  EXPECT_EQ(pool.count(c.id()), 1);
}

TEST(BlockPoolTest, ACachedBlockKeepsItsContentsInTheFreeListUntilTheyAreForgotten) {
  BlockPool pool = MakePool(2);
  {
    const BlockRef ref = pool.Take();
    pool.SetCached(ref.id(), true);
    EXPECT_EQ(pool.num_cached(), 0) << "only unreferenced blocks count";
  }
  EXPECT_EQ(pool.num_cached(), 1);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_THAT(pool.order().ToVector(), ElementsAre(1, 0)) << "behind the one that holds nothing";
  pool.SetCached(0, false);
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_THAT(pool.order().ToVector(), ElementsAre(0, 1));
}

TEST(BlockPoolDeathTest, RefusesToReuseABlockThatARequestMayHit) {
  BlockPool pool = MakePool(1);
  {
    const BlockRef ref = pool.Take();
    pool.SetCached(0, true);
  }
  EXPECT_DEATH(pool.Take(), "may hit");
}

// The pool as one would write it without caring for speed.
struct NaivePool {
  std::deque<BlockId> free;
  std::vector<int> counts;
  std::vector<bool> cached;

  explicit NaivePool(int n) : counts(n), cached(n) {
    for (int id = 0; id < n; ++id) free.push_back(id);
  }
  void Drop(BlockId id) {
    if (--counts[id] > 0) return;
    if (cached[id]) {
      free.push_back(id);
    } else {
      free.push_front(id);
    }
  }
  void Share(BlockId id) {
    if (counts[id]++ == 0) std::erase(free, id);
  }
};

TEST(BlockPoolTest, AgreesWithANaivePoolOverRandomOperations) {
  std::mt19937 random(7);
  constexpr int kBlocks = 9;
  BlockPool pool = MakePool(kBlocks);
  NaivePool twin(kBlocks);
  std::vector<BlockRef> refs;
  for (int step = 0; step < 20000; ++step) {
    const BlockId id = static_cast<BlockId>(random() % kBlocks);
    switch (random() % 4) {
      case 0:
        if (twin.free.empty()) break;
        if (twin.cached[twin.free.front()]) {
          pool.SetCached(twin.free.front(), false);
          twin.cached[twin.free.front()] = false;
        }
        refs.push_back(pool.Take());
        ASSERT_EQ(refs.back().id(), twin.free.front());
        twin.Share(refs.back().id());
        break;
      case 1:
        if (refs.size() > 30) break;
        refs.push_back(pool.Share(id));
        twin.Share(id);
        break;
      case 2:
        if (twin.counts[id] == 0 || twin.cached[id]) break;
        pool.SetCached(id, true);
        twin.cached[id] = true;
        break;
      case 3:
        if (refs.empty()) break;
        std::swap(refs[random() % refs.size()], refs.back());
        twin.Drop(refs.back().id());
        refs.pop_back();
        break;
    }
    pool.CheckInvariants();
    ASSERT_EQ(pool.order().ToVector(), std::vector<BlockId>(twin.free.begin(), twin.free.end()));
    int cached = 0;
    for (const BlockId free : twin.free) cached += twin.cached[free] ? 1 : 0;
    ASSERT_EQ(pool.num_cached(), cached);
    for (BlockId block = 0; block < kBlocks; ++block) ASSERT_EQ(pool.count(block), twin.counts[block]);
  }
}

}  // namespace
}  // namespace qanat::kv
