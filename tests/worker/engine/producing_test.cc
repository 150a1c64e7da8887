#include "worker/engine/producing.h"

#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::engine {
namespace {

TEST(ProducingTest, HigherClassesCountForLowerOnesAndNotTheOtherWayRound) {
  Producing producing;
  producing.Add({5}, Priority::kStandard);
  EXPECT_FALSE(producing.By(5, Priority::kInteractive));
  EXPECT_TRUE(producing.By(5, Priority::kStandard));
  EXPECT_TRUE(producing.By(5, Priority::kBatch));
  EXPECT_FALSE(producing.By(6, Priority::kBatch));
}

TEST(ProducingTest, AgreesWithAListOverRandomOperations) {
  std::mt19937 random(2);
  Producing producing;
  std::vector<std::pair<hash::BlockHash, Priority>> twin;
  for (int step = 0; step < 20000; ++step) {
    const auto priority = static_cast<Priority>(random() % 3);
    if (random() % 2 == 0 && twin.size() < 20) {
      const hash::BlockHash hash = random() % 6;
      producing.Add({hash}, priority);
      twin.emplace_back(hash, priority);
    } else if (!twin.empty()) {
      std::swap(twin[random() % twin.size()], twin.back());
      producing.Remove({twin.back().first}, twin.back().second);
      twin.pop_back();
    }
    ASSERT_EQ(producing.total(), static_cast<int64_t>(twin.size()));
    for (hash::BlockHash hash = 0; hash < 6; ++hash) {
      bool expected = false;
      for (const auto& [other, by] : twin) expected |= other == hash && by <= priority;
      ASSERT_EQ(producing.By(hash, priority), expected);
    }
  }
}

}  // namespace
}  // namespace qanat::engine
