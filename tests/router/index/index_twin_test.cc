#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "router/index/index.h"

namespace qanat::router {
namespace {

using hash::BlockHash;

// Prompts that share beginnings: block d of chain c is named by the part of c that its prefix depends on.
BlockHash BlockOf(uint32_t chain, int depth) {
  const uint32_t branch = chain >> std::max(0, 6 - depth / 3);
  return hash::Mix(uint64_t{branch} * 1000 + static_cast<uint64_t>(depth));
}

// The same sets, kept naively.
class Twin {
 public:
  std::map<HolderId, std::set<BlockHash>> sets;

  int32_t Depth(const std::vector<BlockHash>& prompt, HolderId id) const {
    const auto set = sets.find(id);
    if (set == sets.end()) return 0;
    int32_t depth = 0;
    while (depth < static_cast<int32_t>(prompt.size()) && set->second.count(prompt[depth]) > 0) ++depth;
    return depth;
  }
  size_t Distinct() const {
    std::set<BlockHash> all;
    for (const auto& [id, set] : sets) all.insert(set.begin(), set.end());
    return all.size();
  }
};

class IndexTwinTest : public testing::TestWithParam<int> {
 protected:
  std::vector<BlockHash> RandomChain() {
    const uint32_t chain = random_() % 64;
    const int depth = static_cast<int>(random_() % 40);
    std::vector<BlockHash> blocks;
    for (int d = 0; d < depth; ++d) blocks.push_back(BlockOf(chain, d));
    return blocks;
  }

  // Stores what of a chain the holder lacks, parents first.
  void Store(HolderId id) {
    std::set<BlockHash>& set = twin_.sets[id];
    const std::vector<BlockHash> chain = RandomChain();
    size_t added = 0;
    for (BlockHash block : chain) added += set.insert(block).second ? 1 : 0;
    ASSERT_EQ(index_.Add(id, chain), added);
  }
  // Removes the blocks of a chain from some depth on, and of all chains that have them as parents.
  void Evict(HolderId id) {
    std::set<BlockHash>& set = twin_.sets[id];
    const uint32_t chain = random_() % 64;
    const int from = static_cast<int>(random_() % 40);
    std::vector<BlockHash> gone;
    for (int d = 39; d >= from; --d) {
      for (uint32_t other = 0; other < 64; ++other) {
        if (BlockOf(other, from) != BlockOf(chain, from)) continue;
        if (set.erase(BlockOf(other, d)) > 0) gone.push_back(BlockOf(other, d));
      }
    }
    ASSERT_EQ(index_.Remove(id, gone), gone.size());
    ASSERT_EQ(index_.Remove(id, gone), 0u);
  }
  void Compare() {
    std::vector<HolderId> ids;
    for (const auto& [id, set] : twin_.sets) ids.push_back(id);
    const std::vector<BlockHash> prompt = RandomChain();
    std::vector<int32_t> depths(ids.size());
    index_.Match(prompt, ids, absl::MakeSpan(depths));
    for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(depths[i], twin_.Depth(prompt, ids[i]));
  }

  std::mt19937 random_;
  Index index_;
  Twin twin_;
};

TEST_P(IndexTwinTest, Agree) {
  random_.seed(static_cast<uint32_t>(GetParam()));
  const size_t most = GetParam() % 2 == 0 ? 4 : 20;
  for (int step = 0; step < 4000; ++step) {
    const auto dice = random_() % 100;
    if (twin_.sets.size() < most && dice < 10) {
      const HolderId id = index_.Open(10'000);
      ASSERT_TRUE(twin_.sets.try_emplace(id).second);
    } else if (dice < 12 && !twin_.sets.empty()) {
      const HolderId id = twin_.sets.begin()->first;
      index_.Close(id);
      twin_.sets.erase(id);
    } else if (dice < 30) {
      index_.Sweep(random_() % 200);
    } else if (!twin_.sets.empty()) {
      const auto chosen = std::next(twin_.sets.begin(), random_() % twin_.sets.size());
      ASSERT_NO_FATAL_FAILURE(dice < 70 ? Store(chosen->first) : Evict(chosen->first));
    }
    ASSERT_NO_FATAL_FAILURE(Compare());
    if (step % 500 == 0) index_.CheckInvariants();
  }
  while (!index_.Sweep(50)) {
  }
  index_.CheckInvariants();
  EXPECT_EQ(index_.Stats().distinct_blocks, static_cast<int64_t>(twin_.Distinct()));
  EXPECT_EQ(index_.not_closed(), 0);
  for (const auto& [id, set] : twin_.sets) {
    hash::Residency expected;
    for (BlockHash block : set) expected.Add(block);
    EXPECT_EQ(index_.Residency(id), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, IndexTwinTest, testing::Range(1, 7));

}  // namespace
}  // namespace qanat::router
