#include "worker/kv/first_fit_order.h"

#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::kv {
namespace {

using ::testing::ElementsAre;

TEST(FirstFitOrderTest, TheLowestRunThatIsLongEnoughIsFound) {
  FirstFitOrder order;
  for (const BlockId id : {0, 2, 3, 5, 6, 7, 9, 10, 11}) order.Add(id, false);
  EXPECT_EQ(order.FindRun(1), 0);
  EXPECT_EQ(order.FindRun(2), 2);
  EXPECT_EQ(order.FindRun(3), 5);
  EXPECT_EQ(order.FindRun(4), kNoBlock) << "nine are free, but not four neighbours";
  order.Add(8, false);
  EXPECT_EQ(order.FindRun(4), 5);
  EXPECT_EQ(order.FindRun(7), 5);
}

TEST(FirstFitOrderTest, KeepsNoContents) {
  FirstFitOrder order;
  EXPECT_DEATH(order.Add(0, true), "would overwrite");
}

BlockId FindNaively(const std::set<BlockId>& free, int32_t length) {
  int32_t run = 0;
  BlockId last = kNoBlock;
  for (const BlockId id : free) {
    run = last != kNoBlock && id == last + 1 ? run + 1 : 1;
    if (run == length) return id - length + 1;
    last = id;
  }
  return kNoBlock;
}

TEST(FirstFitOrderTest, AgreesWithASetOverRandomOperations) {
  std::mt19937 random(1);
  constexpr int kBlocks = 20;
  FirstFitOrder order;
  std::set<BlockId> twin;
  for (int step = 0; step < 20000; ++step) {
    const auto id = static_cast<BlockId>(random() % kBlocks);
    if (twin.erase(id) > 0) {
      order.Remove(id);
    } else {
      twin.insert(id);
      order.Add(id, false);
    }
    ASSERT_EQ(order.ToVector(), std::vector<BlockId>(twin.begin(), twin.end()));
    ASSERT_EQ(order.size(), static_cast<int32_t>(twin.size()));
    if (!twin.empty()) {
      ASSERT_EQ(order.Next(), *twin.begin());
    }
    for (int32_t length = 1; length <= kBlocks; ++length) {
      ASSERT_EQ(order.FindRun(length), FindNaively(twin, length)) << length;
    }
  }
}

}  // namespace
}  // namespace qanat::kv
