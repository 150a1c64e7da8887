#include "common/hash/net_change.h"

#include <map>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::hash {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NetChangeTest, TellsChangesInTheirOrder) {
  NetChange change;
  change.Store(3);
  change.Store(1);
  change.Remove(7);
  change.Remove(5);
  EXPECT_EQ(change.size(), 4u);
  const SetDelta delta = change.Take();
  EXPECT_THAT(delta.stored, ElementsAre(3, 1));
  EXPECT_THAT(delta.removed, ElementsAre(7, 5));
  EXPECT_TRUE(change.empty());
  EXPECT_TRUE(change.Take().empty());
}

TEST(NetChangeTest, WhatComesAndGoesLeavesNoTrace) {
  NetChange change;
  change.Store(1);
  change.Remove(2);
  change.Remove(1);
  change.Store(2);
  EXPECT_TRUE(change.empty());
  EXPECT_TRUE(change.Take().empty());
}

TEST(NetChangeTest, AHashStandsWhereItsLastChangePutIt) {
  NetChange change;
  change.Store(1);
  change.Store(2);
  change.Remove(1);
  change.Store(1);
  EXPECT_THAT(change.Take().stored, ElementsAre(2, 1));
}

TEST(NetChangeTest, DeltasInARowMakeOne) {
  NetChange change;
  change.Apply({{1, 2}, {9}});
  change.Apply({{3, 9}, {2}});
  const SetDelta delta = change.Take();
  EXPECT_THAT(delta.stored, ElementsAre(1, 3));
  EXPECT_THAT(delta.removed, IsEmpty());
}

// The children of node n of the tree are 3n + 1 .. 3n + 3: a prefix-closed set holds with a node its parent.
class Tree {
 public:
  static BlockHash Parent(BlockHash node) { return (node - 1) / 3; }

  bool CanStore(BlockHash node) const { return !nodes_.contains(node) && (node == 0 || Has(Parent(node))); }
  bool CanRemove(BlockHash node) const {
    return Has(node) && !Has(3 * node + 1) && !Has(3 * node + 2) && !Has(3 * node + 3);
  }
  bool Has(BlockHash node) const { return nodes_.contains(node); }

  void Store(BlockHash node) {
    ASSERT_TRUE(CanStore(node)) << node;
    nodes_.insert(node);
  }
  void Remove(BlockHash node) {
    ASSERT_TRUE(CanRemove(node)) << node;
    nodes_.erase(node);
  }
  const std::set<BlockHash>& nodes() const { return nodes_; }

 private:
  std::set<BlockHash> nodes_;
};

TEST(NetChangeTest, LeadsFromTreeToTreeThroughTreesAlone) {
  std::mt19937 random(11);
  NetChange change;
  Tree tree, reader;
  size_t most = 0;
  for (int round = 0; round < 3000; ++round) {
    // Now and then so long that what is undone must be dropped.
    for (uint32_t n = random() % (round % 300 == 0 ? 20000 : 40); n > 0; --n) {
      const BlockHash node = random() % 200;
      if (tree.CanStore(node)) {
        tree.Store(node);
        change.Store(node);
      } else if (tree.CanRemove(node)) {
        tree.Remove(node);
        change.Remove(node);
      }
    }
    most = std::max(most, change.size());
    ASSERT_LE(change.size(), 200u);
    const SetDelta delta = change.Take();
    // The two lists may be applied in either order.
    const auto store = [&] {
      for (const BlockHash node : delta.stored) reader.Store(node);
    };
    const auto remove = [&] {
      for (const BlockHash node : delta.removed) reader.Remove(node);
    };
    if (random() % 2 == 0)
      store(), remove();
    else
      remove(), store();
    if (HasFatalFailure()) return;
    ASSERT_EQ(reader.nodes(), tree.nodes());
  }
  EXPECT_GT(most, 30u) << "too tame to prove anything";
}

}  // namespace
}  // namespace qanat::hash
