// The policies that others use, kept for comparison.
#include <map>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "router/routing/consistent_hash.h"
#include "router/routing/linear_cost.h"
#include "router/routing/overlap_argmax.h"
#include "router/routing/power_of_two.h"
#include "router/routing/weighted_sum.h"
#include "tests/router/routing/picture.h"

namespace qanat::router {
namespace {

class BaselinesTest : public testing::Test {
 protected:
  BaselinesTest() {
    request_.model = model_.get();
    request_.index = &cache_.index();
    request_.prompt_tokens = 1600;
    request_.hashes = prompt_;
  }
  int Pick(const RoutingPolicy& policy) { return Chosen(policy.Pick(request_, picture_.Take())); }
  void Hold(size_t worker, size_t depth) { cache_.Hold(picture_, worker, prompt_, depth); }

  const std::shared_ptr<const Model> model_ = MakeModel("m");
  const std::vector<hash::BlockHash> prompt_ = PromptHashes(1, 100);
  Picture picture_{model_};
  Cache cache_;
  RouteRequest request_;
};

TEST_F(BaselinesTest, PowerOfTwoPicksTheLessLoadedOfTwo) {
  picture_.Add(5, 1).Add(1, 2).Add(3, 3);
  std::map<int, int> picks;
  for (request_.salt = 0; request_.salt < 3000; ++request_.salt) ++picks[Pick(PowerOfTwo())];
  EXPECT_EQ(picks[0], 0) << "whoever it is drawn with has fewer";
  EXPECT_NEAR(picks[1], 2000, 150);
  EXPECT_NEAR(picks[2], 1000, 150);
}

TEST_F(BaselinesTest, PowerOfTwoTakesTheOnlyOne) {
  picture_.Add(5, 1);
  EXPECT_EQ(Pick(PowerOfTwo()), 0);
}

TEST_F(BaselinesTest, ConsistentHashKeepsABeginningTogetherWhileItsWorkerHasRoom) {
  picture_.Add(2, 1).Add(2, 2).Add(2, 3).Add(2, 4);
  const int home = Pick(ConsistentHash());
  const std::vector<hash::BlockHash> other_end(prompt_.begin(), prompt_.begin() + 40);
  request_.hashes = other_end;
  EXPECT_EQ(Pick(ConsistentHash()), home);
  picture_.load(static_cast<size_t>(home)).in_flight = 20;
  EXPECT_NE(Pick(ConsistentHash()), home);
}

TEST_F(BaselinesTest, ConsistentHashSpreadsPrompts) {
  picture_.Add(0, 0).Add(0, 0).Add(0, 0);
  std::map<int, int> picks;
  for (uint64_t name = 0; name < 300; ++name) {
    const auto prompt = PromptHashes(name, 4);
    request_.hashes = prompt;
    ++picks[Pick(ConsistentHash())];
  }
  for (int worker = 0; worker < 3; ++worker) EXPECT_GT(picks[worker], 60);
}

TEST_F(BaselinesTest, OverlapArgmaxFollowsTheLongestMatchWhileBalanced) {
  picture_.Add(0, 1).Add(50, 2).Add(10, 3);
  Hold(1, 30);
  Hold(2, 20);
  EXPECT_EQ(Pick(OverlapArgmax()), 1);
  picture_.load(1).in_flight = 64;
  EXPECT_EQ(Pick(OverlapArgmax()), 1) << "within the absolute threshold";
  picture_.load(1).in_flight = 65;
  EXPECT_EQ(Pick(OverlapArgmax()), 0);
  picture_.load(0).in_flight = picture_.load(2).in_flight = 200;
  picture_.load(1).in_flight = 300;
  EXPECT_EQ(Pick(OverlapArgmax()), 1) << "within the relative threshold";
}

TEST_F(BaselinesTest, OverlapArgmaxWithoutAMatchTakesTheLeastLoaded) {
  picture_.Add(3, 1).Add(2, 9).Add(2, 4);
  EXPECT_EQ(Pick(OverlapArgmax()), 2);
}

TEST_F(BaselinesTest, LinearCostAddsBlocksToComputeAndBlocksInUse) {
  picture_.Add(0, 1);
  picture_.last().total_blocks = 1000;
  picture_.last_load().free_blocks = 1000;
  picture_.Add(0, 2);
  picture_.last().total_blocks = 1000;
  picture_.last_load().free_blocks = 930;
  Hold(1, 40);  // 80 blocks less, of prefill and of decode, against 70 in use
  EXPECT_EQ(Pick(LinearCost()), 1);
  picture_.load(1).free_blocks = 910;
  EXPECT_EQ(Pick(LinearCost()), 0);
  picture_.load(0).queued_tokens = 16 * 20;
  EXPECT_EQ(Pick(LinearCost()), 1);
}

TEST_F(BaselinesTest, WeightedSumWeighsPrefixTwiceAsMuchAsQueueOrMemory) {
  picture_.Add(0, 1).Add(0, 2);
  for (size_t i : {0, 1}) picture_.load(i).free_blocks = 100;
  Hold(1, 40);
  EXPECT_EQ(Pick(WeightedSum()), 1);
  picture_.load(1).waiting = 1;  // the longest queue: 1 less, against 0.8 for the prefix
  EXPECT_EQ(Pick(WeightedSum()), 0);
  Hold(1, 60);
  EXPECT_EQ(Pick(WeightedSum()), 1);
  picture_.load(1).free_blocks = 70;
  EXPECT_EQ(Pick(WeightedSum()), 0);
}

TEST_F(BaselinesTest, ARouteSaysWhatIsPredictedWhoeverPicksIt) {
  picture_.Add(0, 1);
  Hold(0, 40);
  const PowerOfTwo blind;
  const WeightedSum seeing;
  for (const RoutingPolicy* policy :
       {static_cast<const RoutingPolicy*>(&blind), static_cast<const RoutingPolicy*>(&seeing)}) {
    const auto route = std::get<Route>(policy->Pick(request_, picture_.Take()));
    EXPECT_EQ(route.hit_tokens, 640);
    EXPECT_GT(route.ttft_ms, 0);
  }
}

}  // namespace
}  // namespace qanat::router
