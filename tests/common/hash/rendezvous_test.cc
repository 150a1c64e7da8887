#include "common/hash/rendezvous.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::hash {
namespace {

std::string Winner(uint64_t key, const std::vector<std::string>& nodes) {
  return *std::max_element(nodes.begin(), nodes.end(), [key](const std::string& a, const std::string& b) {
    return RendezvousWeight(key, a) < RendezvousWeight(key, b);
  });
}

TEST(RendezvousTest, SpreadsKeysEvenly) {
  const std::vector<std::string> nodes = {"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1"};
  std::map<std::string, int> keys;
  for (uint64_t key = 0; key < 8000; ++key) ++keys[Winner(key, nodes)];
  for (const std::string& node : nodes) {
    EXPECT_GT(keys[node], 1800);
    EXPECT_LT(keys[node], 2200);
  }
}

TEST(RendezvousTest, ANodeThatLeavesMovesItsOwnKeysOnly) {
  const std::vector<std::string> nodes = {"a", "b", "c", "d"};
  for (uint64_t key = 0; key < 1000; ++key) {
    const std::string winner = Winner(key, nodes);
    const std::string later = Winner(key, {"a", "b", "c"});
    EXPECT_TRUE(later == winner || winner == "d") << key;
  }
}

}  // namespace
}  // namespace qanat::hash
