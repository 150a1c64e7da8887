#include "router/index/index.h"

#include <vector>

#include "gtest/gtest.h"

namespace qanat::router {
namespace {

using hash::BlockHash;
using Hashes = std::vector<BlockHash>;

Hashes Range(BlockHash first, size_t count) {
  Hashes hashes(count);
  for (size_t i = 0; i < count; ++i) hashes[i] = first + i;
  return hashes;
}

class IndexTest : public testing::Test {
 protected:
  ~IndexTest() override { index_.CheckInvariants(); }

  std::vector<int32_t> Match(const Hashes& prompt, const std::vector<HolderId>& holders) const {
    std::vector<int32_t> depths(holders.size(), -1);
    index_.Match(prompt, holders, absl::MakeSpan(depths));
    return depths;
  }
  void SweepAll() {
    while (!index_.Sweep(1000)) {
    }
  }
  // A prompt that Match looks at twice.
  static Hashes SampledPrompt(size_t blocks) {
    Hashes prompt = Range(1000, blocks);
    while (hash::Mix(prompt.back()) % Index::kSample != 0) ++prompt.back();
    return prompt;
  }

  Index index_;
};

TEST_F(IndexTest, TellsHowDeepEachHolderGoes) {
  const HolderId a = index_.Open(100);
  const HolderId b = index_.Open(100);
  const HolderId c = index_.Open(100);
  const Hashes prompt = Range(500, 37);
  index_.Add(a, Range(500, 37));
  index_.Add(b, Range(500, 13));
  EXPECT_EQ(Match(prompt, {a, b, c}), (std::vector<int32_t>{37, 13, 0}));
  EXPECT_EQ(Match(prompt, {c, b}), (std::vector<int32_t>{0, 13}));
  EXPECT_EQ(Match({}, {a}), std::vector<int32_t>{0});
  EXPECT_EQ(Match(prompt, {}), std::vector<int32_t>());
}

TEST_F(IndexTest, EveryHashIsABlock) {
  const HolderId a = index_.Open(10);
  const Hashes odd = {0, ~BlockHash{0}, 1, BlockHash{1} << 63};
  EXPECT_EQ(index_.Add(a, odd), 4u);
  EXPECT_EQ(Match(odd, {a}), std::vector<int32_t>{4});
  EXPECT_EQ(index_.Remove(a, Hashes{0}), 1u);
  EXPECT_EQ(Match({0}, {a}), std::vector<int32_t>{0});
  EXPECT_EQ(Match({~BlockHash{0}}, {a}), std::vector<int32_t>{1});
}

TEST_F(IndexTest, SaysHowManyBlocksChangedSomething) {
  const HolderId a = index_.Open(100);
  EXPECT_EQ(index_.Add(a, Range(0, 10)), 10u);
  EXPECT_EQ(index_.Add(a, Range(5, 10)), 5u);
  EXPECT_EQ(index_.Remove(a, Range(12, 10)), 3u);
  EXPECT_EQ(index_.Residency(a).resident_count, 12);
  EXPECT_EQ(index_.Stats().stored, 15);
  EXPECT_EQ(index_.Stats().removed, 3);
  EXPECT_EQ(index_.Stats().distinct_blocks, 12);
}

TEST_F(IndexTest, TakesNoMoreThanTheCapacity) {
  const HolderId a = index_.Open(8);
  EXPECT_EQ(index_.Add(a, Range(0, 20)), 8u);
  EXPECT_EQ(index_.Residency(a).resident_count, 8);
  index_.Remove(a, Range(0, 1));
  EXPECT_EQ(index_.Add(a, Range(50, 2)), 1u);
}

TEST_F(IndexTest, ResidencyIsThatOfTheSet) {
  const HolderId a = index_.Open(100);
  const HolderId b = index_.Open(100);
  index_.Add(a, Range(0, 20));
  index_.Remove(a, Range(10, 10));
  index_.Add(b, Range(0, 10));
  EXPECT_EQ(index_.Residency(a), index_.Residency(b));
  index_.Remove(b, Range(3, 1));
  EXPECT_NE(index_.Residency(a), index_.Residency(b));
}

TEST_F(IndexTest, AClosedHolderIsNotCredited) {
  const HolderId a = index_.Open(100);
  const HolderId b = index_.Open(100);
  index_.Add(a, Range(0, 10));
  index_.Add(b, Range(0, 6));
  index_.Close(a);
  EXPECT_EQ(Match(Range(0, 10), {a, b}), (std::vector<int32_t>{0, 6}));
}

TEST_F(IndexTest, AnIdComesBackAfterTheSweepOnlyAndEmpty) {
  const HolderId a = index_.Open(1000);
  index_.Add(a, Range(0, 1000));
  index_.Close(a);
  EXPECT_NE(index_.Open(10), a);
  SweepAll();
  EXPECT_EQ(index_.Stats().distinct_blocks, 0);
  EXPECT_EQ(index_.Open(10), a);
  EXPECT_EQ(Match(Range(0, 10), {a}), std::vector<int32_t>{0});
  EXPECT_EQ(index_.Residency(a), hash::Residency());
}

TEST_F(IndexTest, ASweepIsDoneInSmallPieces) {
  const HolderId a = index_.Open(5000);
  const HolderId b = index_.Open(5000);
  index_.Add(a, Range(0, 5000));
  index_.Add(b, Range(2500, 5000));
  index_.Close(a);
  int calls = 1;
  while (!index_.Sweep(100)) ++calls;
  EXPECT_GT(calls, 50);
  EXPECT_EQ(index_.Stats().distinct_blocks, 5000);
  EXPECT_TRUE(index_.Sweep(1));
}

TEST_F(IndexTest, ABlockOfManyHoldersIsKnownForEach) {
  std::vector<HolderId> holders;
  for (int i = 0; i < 300; ++i) {
    holders.push_back(index_.Open(100));
    index_.Add(holders.back(), Range(0, static_cast<size_t>(i) % 50));
  }
  const std::vector<int32_t> depths = Match(Range(0, 60), holders);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(depths[i], i % 50);
  for (int i = 0; i < 300; i += 2) index_.Close(holders[i]);
  SweepAll();
  EXPECT_EQ(index_.Stats().distinct_blocks, 49);
  for (int i = 1; i < 300; i += 2) index_.Remove(holders[i], Range(0, static_cast<size_t>(i) % 50));
  EXPECT_EQ(index_.Stats().distinct_blocks, 0);
}

TEST_F(IndexTest, CostsAtMost32BytesADistinctBlock) {
  const HolderId a = index_.Open(1 << 20);
  const HolderId b = index_.Open(1 << 20);
  for (BlockHash first = 0; first < 100'000; first += 10'000) {
    index_.Add(a, Range(first, 10'000));
    index_.Add(b, Range(first, 10'000));
    if (first < 30'000) continue;
    EXPECT_LE(index_.Stats().bytes, index_.Stats().distinct_blocks * 32);
  }
  index_.Remove(a, Range(0, 70'000));
  index_.Remove(b, Range(0, 70'000));
  EXPECT_LE(index_.Stats().bytes, index_.Stats().distinct_blocks * 32);
}

TEST_F(IndexTest, ABlockWithoutItsParentIsNoticedAndCountedBlockByBlock) {
  const HolderId a = index_.Open(100);
  const Hashes prompt = SampledPrompt(40);
  index_.Add(a, prompt);
  for (size_t hole = 0; hole + 1 < prompt.size(); ++hole) {
    index_.Remove(a, Hashes{prompt[hole]});
    const int32_t depth = Match(prompt, {a})[0];
    EXPECT_TRUE(depth == static_cast<int32_t>(hole) || depth == 40) << depth;
    if (index_.not_closed() > 0) {
      EXPECT_EQ(depth, static_cast<int32_t>(hole));
      return;
    }
    index_.Add(a, Hashes{prompt[hole]});
  }
  FAIL() << "no hole was noticed";
}

}  // namespace
}  // namespace qanat::router
