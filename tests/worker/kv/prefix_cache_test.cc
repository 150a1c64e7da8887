#include "worker/kv/prefix_cache.h"

#include <map>
#include <random>

#include "gtest/gtest.h"
#include "worker/kv/lru_order.h"

namespace qanat::kv {
namespace {

using Found = PrefixCache::Found;

class PrefixCacheTest : public testing::Test {
 protected:
  static constexpr int32_t kBlocks = 8;
  static constexpr int32_t kBlockSize = 2;

  BlockKey Key(hash::BlockHash hash, BlockId parent, const std::vector<TokenId>& tokens) const {
    return {hash, namespace_, parent, tokens};
  }
  BlockId Insert(hash::BlockHash hash, BlockId parent, const std::vector<TokenId>& tokens) {
    refs_.push_back(pool_.Take());
    cache_.Insert(Key(hash, parent, tokens), refs_.back().id());
    cache_.CheckInvariants();
    return refs_.back().id();
  }
  // Deepest first, as a table does.
  void DropAll() {
    while (!refs_.empty()) refs_.pop_back();
  }

  hash::Namespace namespace_{{1}};
  BlockPool pool_{kBlocks, std::make_unique<LruOrder>(kBlocks)};
  PrefixCache cache_{pool_, kBlockSize};
  std::vector<BlockRef> refs_;
};

TEST_F(PrefixCacheTest, FindsWhatWasInserted) {
  const std::vector<TokenId> tokens = {4, 5};
  EXPECT_EQ(cache_.Find(Key(11, kNoBlock, tokens)).found, Found::kNothing);
  const BlockId block = Insert(11, kNoBlock, tokens);
  const PrefixCache::Result result = cache_.Find(Key(11, kNoBlock, tokens));
  EXPECT_EQ(result.found, Found::kSame);
  EXPECT_EQ(result.block, block);
}

TEST_F(PrefixCacheTest, EqualHashesOfOtherTokensAreNoHit) {
  Insert(11, kNoBlock, {4, 5});
  const std::vector<TokenId> other = {4, 6};
  EXPECT_EQ(cache_.Find(Key(11, kNoBlock, other)).found, Found::kOther);
}

TEST_F(PrefixCacheTest, EqualHashesUponAnotherParentAreNoHit) {
  const BlockId first = Insert(1, kNoBlock, {1, 1});
  const BlockId second = Insert(2, kNoBlock, {2, 2});
  const std::vector<TokenId> tokens = {4, 5};
  Insert(11, first, tokens);
  EXPECT_EQ(cache_.Find(Key(11, first, tokens)).found, Found::kSame);
  EXPECT_EQ(cache_.Find(Key(11, second, tokens)).found, Found::kOther);
  EXPECT_EQ(cache_.Find(Key(11, kNoBlock, tokens)).found, Found::kOther);
}

TEST_F(PrefixCacheTest, EqualHashesOfAnotherNamespaceAreNoHit) {
  const std::vector<TokenId> tokens = {4, 5};
  Insert(11, kNoBlock, tokens);
  const hash::Namespace other{{2}};
  EXPECT_EQ(cache_.Find({11, other, kNoBlock, tokens}).found, Found::kOther);
}

TEST_F(PrefixCacheTest, AParentThatWasReusedVouchesForNothing) {
  const std::vector<TokenId> tokens = {2, 2};
  const BlockId parent = Insert(1, kNoBlock, {1, 1});
  Insert(2, parent, tokens);
  DropAll();
  // Behind the cache's back, which would have forgotten the child first.
  pool_.SetCached(parent, false);
  const BlockRef again = pool_.Take();
  ASSERT_EQ(again.id(), parent);
  EXPECT_EQ(cache_.Find(Key(2, parent, tokens)).found, Found::kOther);
}

TEST_F(PrefixCacheTest, ForgettingMakesABlockFree) {
  const std::vector<TokenId> tokens = {4, 5};
  const BlockId block = Insert(11, kNoBlock, tokens);
  DropAll();
  EXPECT_EQ(pool_.num_cached(), 1);
  cache_.Forget(block);
  EXPECT_EQ(pool_.num_cached(), 0);
  EXPECT_EQ(cache_.size(), 0);
  EXPECT_EQ(cache_.Find(Key(11, kNoBlock, tokens)).found, Found::kNothing);
}

using PrefixCacheDeathTest = PrefixCacheTest;

TEST_F(PrefixCacheDeathTest, AParentIsNotForgottenBeforeItsChildren) {
  const BlockId parent = Insert(1, kNoBlock, {1, 1});
  Insert(2, parent, {2, 2});
  EXPECT_DEATH(cache_.Forget(parent), "has resident children");
}

TEST_F(PrefixCacheDeathTest, ABlockIsNotInsertedUponAnAbsentParent) {
  refs_.push_back(pool_.Take());
  const BlockId parent = refs_.back().id();
  EXPECT_DEATH(Insert(2, parent, {2, 2}), "without its parent");
}

TEST_F(PrefixCacheTest, AgreesWithAMapOfWholePrefixesOverRandomOperations) {
  std::mt19937 random(3);
  std::map<std::vector<TokenId>, BlockId> twin;  // all tokens up to the block's end -> block
  std::vector<BlockRef> held(kBlocks);           // by block: resident blocks stay referenced here
  const auto hash_of = [](const std::vector<TokenId>& prefix) {
    hash::BlockHash hash = 1;
    for (const TokenId token : prefix) hash = hash * 1000003 + static_cast<hash::BlockHash>(token);
    return hash;
  };
  for (int step = 0; step < 30000; ++step) {
    // A random path of two or three values a level, up to three blocks deep.
    std::vector<TokenId> prefix;
    BlockId parent = kNoBlock;
    const size_t depth = 1 + random() % 3;
    while (prefix.size() < depth * kBlockSize) {
      if (!prefix.empty()) {
        const auto it = twin.find(prefix);
        if (it == twin.end()) break;
        parent = it->second;
      }
      prefix.push_back(static_cast<TokenId>(random() % 2));
      prefix.push_back(static_cast<TokenId>(random() % 2));
    }
    const std::vector<TokenId> tokens(prefix.end() - kBlockSize, prefix.end());
    const BlockKey key = Key(hash_of(prefix), parent, tokens);
    const PrefixCache::Result result = cache_.Find(key);
    const auto it = twin.find(prefix);
    ASSERT_EQ(result.found, it == twin.end() ? Found::kNothing : Found::kSame);
    if (it == twin.end()) {
      if (pool_.num_unreferenced() == 0) continue;
      BlockRef block = pool_.Take();
      cache_.Insert(key, block.id());
      twin.emplace(prefix, block.id());
      held[block.id()] = std::move(block);
    } else {
      ASSERT_EQ(result.block, it->second);
      const auto next = std::next(it);
      const bool leaf = next == twin.end() || next->first.size() <= prefix.size() ||
                        !std::equal(prefix.begin(), prefix.end(), next->first.begin());
      if (leaf && random() % 2 == 0) {
        cache_.Forget(it->second);
        held[it->second] = BlockRef();
        twin.erase(it);
      }
    }
    cache_.CheckInvariants();
    ASSERT_EQ(cache_.size(), static_cast<int32_t>(twin.size()));
  }
}

}  // namespace
}  // namespace qanat::kv
