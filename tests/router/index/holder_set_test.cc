#include "router/index/holder_set.h"

#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::router {
namespace {

TEST(HolderSetsTest, FourHoldersNeedNoSet) {
  Epochs epochs;
  HolderSets sets(epochs);
  uint64_t word = holders::kEmpty;
  for (Lane lane : {4, 1, 3, 2}) word = sets.With(word, lane);
  EXPECT_FALSE(holders::IsSet(word));
  EXPECT_EQ(holders::Lanes(word), (std::vector<Lane>{1, 2, 3, 4}));
  EXPECT_EQ(sets.With(word, 3), word);
  EXPECT_EQ(sets.Without(word, 9), word);
}

TEST(HolderSetsTest, EqualHoldersShareOneSet) {
  Epochs epochs;
  HolderSets sets(epochs);
  const std::vector<Lane> lanes = {1, 2, 3, 4, 0x7fff};
  const uint64_t word = sets.Make(lanes);
  ASSERT_TRUE(holders::IsSet(word));
  EXPECT_EQ(sets.Make(lanes), word);
  const size_t bytes = sets.Bytes();
  sets.Release(word);
  EXPECT_EQ(holders::Lanes(word), lanes) << "the second word names it still";
  EXPECT_EQ(sets.Bytes(), bytes);
  sets.Release(word);
}

TEST(HolderSetsTest, ASetOutlivesItsLastWordWhileAReaderIsInside) {
  Epochs epochs;
  HolderSets sets(epochs);
  const uint64_t word = sets.Make(std::vector<Lane>{1, 2, 3, 4, 5});
  {
    const Epochs::Reader reader(epochs);
    sets.Release(word);
    for (Lane lane = 10; lane < 500; ++lane) sets.Release(sets.Make(std::vector<Lane>{1, 2, 3, 4, lane}));
    EXPECT_TRUE(holders::Contains(word, 5));
  }
  const size_t waiting = sets.Bytes();
  for (Lane lane = 10; lane < 100; ++lane) sets.Release(sets.Make(std::vector<Lane>{1, 2, 3, 4, lane}));
  EXPECT_LT(sets.Bytes(), waiting);
}

TEST(HolderSetsTest, AgreesWithANaiveTwin) {
  Epochs epochs;
  HolderSets sets(epochs);
  std::mt19937 random(3);
  std::set<Lane> twin;
  uint64_t word = holders::kEmpty;
  for (int i = 0; i < 20000; ++i) {
    const Lane lane = static_cast<Lane>(random() % 12 == 0 ? 0x7fff : random() % 9 + 1);
    const bool add = random() % 2 == 0;
    const uint64_t next = add ? sets.With(word, lane) : sets.Without(word, lane);
    const bool changes = add ? twin.insert(lane).second : twin.erase(lane) > 0;
    ASSERT_EQ(next != word, changes);
    if (next != word) sets.Release(word);
    word = next;
    ASSERT_EQ(holders::Lanes(word), std::vector<Lane>(twin.begin(), twin.end()));
    for (Lane asked : {Lane{1}, Lane{5}, Lane{9}, Lane{0x7fff}, Lane{0x7ffe}}) {
      ASSERT_EQ(holders::Contains(word, asked), twin.count(asked) > 0);
    }
  }
}

}  // namespace
}  // namespace qanat::router
