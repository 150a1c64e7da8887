#include "worker/kv/lru_order.h"

#include <deque>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::kv {
namespace {

using ::testing::ElementsAre;

TEST(LruOrderTest, CachedBlocksAreReusedInOrderOfRelease) {
  LruOrder order(4);
  for (const BlockId id : {2, 0, 3}) order.Add(id, true);
  EXPECT_EQ(order.Next(), 2);
  EXPECT_THAT(order.ToVector(), ElementsAre(2, 0, 3));
}

TEST(LruOrderTest, UncachedBlocksGoFirst) {
  LruOrder order(4);
  order.Add(0, true);
  order.Add(1, false);
  order.Add(2, false);
  EXPECT_THAT(order.ToVector(), ElementsAre(2, 1, 0));
}

TEST(LruOrderTest, AgreesWithADequeOverRandomOperations) {
  std::mt19937 random(1);
  constexpr int kBlocks = 12;
  LruOrder order(kBlocks);
  std::deque<BlockId> twin;
  for (int step = 0; step < 20000; ++step) {
    const BlockId id = static_cast<BlockId>(random() % kBlocks);
    const auto it = std::find(twin.begin(), twin.end(), id);
    if (it != twin.end()) {
      twin.erase(it);
      order.Remove(id);
    } else if (random() % 2 == 0) {
      twin.push_back(id);
      order.Add(id, true);
    } else {
      twin.push_front(id);
      order.Add(id, false);
    }
    ASSERT_EQ(order.ToVector(), std::vector<BlockId>(twin.begin(), twin.end()));
    ASSERT_EQ(order.size(), static_cast<int32_t>(twin.size()));
    if (!twin.empty()) {
      ASSERT_EQ(order.Next(), twin.front());
    }
  }
}

}  // namespace
}  // namespace qanat::kv
