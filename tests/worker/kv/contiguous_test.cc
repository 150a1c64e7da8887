// Tables as runs of neighbours.
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/kv/kv_manager.h"

namespace qanat::kv {
namespace {

using ::testing::ElementsAre;

class ContiguousTest : public testing::Test {
 protected:
  static constexpr int32_t kBlocks = 10;

  BlockTable NewTable() { return kv_.NewTable(hash::Namespace{}); }
  // Blocks of two tokens.
  std::optional<BlockTable> Take(int32_t blocks) {
    BlockTable table = NewTable();
    if (!kv_.Reserve(table, 2 * blocks)) return std::nullopt;
    return table;
  }

  KvManager kv_{kBlocks, false, hash::BlockHasher(hash::kPublicKey, "model", 2), Layout::kContiguous};
};

TEST_F(ContiguousTest, ATableHoldsItsLongestCaseFromTheFirstOn) {
  EXPECT_EQ(kv_.Held(3, 17), 17);
  BlockTable table = NewTable();
  ASSERT_TRUE(kv_.Reserve(table, kv_.Held(3, 9)));
  EXPECT_THAT(table.blocks(), ElementsAre(0, 1, 2, 3, 4));
  ASSERT_TRUE(kv_.Reserve(table, kv_.Held(8, 9)));
  EXPECT_EQ(table.size(), 5) << "it has all that it will need";
}

TEST_F(ContiguousTest, FreeBlocksThatAreNoNeighboursAreNoRoom) {
  auto a = Take(2), b = Take(3), c = Take(2), d = Take(3);
  EXPECT_FALSE(Take(1).has_value());
  b.reset();
  d.reset();
  EXPECT_EQ(kv_.pool().num_unreferenced(), 6);
  EXPECT_FALSE(kv_.Fits(4, 0, {}));
  EXPECT_FALSE(Take(4).has_value()) << "two holes of three";
  EXPECT_TRUE(kv_.Fits(3, 100, {})) << "nobody is promised what they do not have";
  auto e = Take(3);
  EXPECT_THAT(e->blocks(), ElementsAre(2, 3, 4)) << "the first that fits";
  c.reset();
  EXPECT_THAT(Take(5)->blocks(), ElementsAre(5, 6, 7, 8, 9)) << "neighbours that fell free join";
}

TEST_F(ContiguousTest, RandomTablesAreAlwaysRuns) {
  std::mt19937 random(2);
  std::vector<std::unique_ptr<BlockTable>> tables;
  for (int step = 0; step < 5000; ++step) {
    if (random() % 2 == 0 && !tables.empty()) {
      std::swap(tables[random() % tables.size()], tables.back());
      tables.pop_back();
    } else if (auto table = Take(static_cast<int32_t>(1 + random() % 4)); table.has_value()) {
      for (int32_t i = 1; i < table->size(); ++i) ASSERT_EQ(table->blocks()[i], table->blocks()[0] + i);
      tables.push_back(std::make_unique<BlockTable>(*std::move(table)));
    }
    std::vector<const BlockTable*> all;
    for (const auto& held : tables) all.push_back(held.get());
    kv_.CheckInvariants(all);
  }
}

}  // namespace
}  // namespace qanat::kv
