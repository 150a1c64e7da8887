#include "router/routing/policy.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "router/routing/least_loaded.h"
#include "router/routing/round_robin.h"
#include "tests/router/routing/picture.h"

namespace qanat::router {
namespace {

class PolicyTest : public testing::Test {
 protected:
  PolicyTest() { request_.model = model_.get(); }

  const std::shared_ptr<const Model> model_ = MakeModel("m");
  RouteRequest request_;
  Picture picture_{model_};
  LeastLoaded least_loaded_;
  RoundRobin round_robin_;
};

TEST_F(PolicyTest, LeastLoadedPicksTheFewestOpenCalls) {
  picture_.Add(3, 1).Add(1, 9).Add(2, 2);
  EXPECT_EQ(Chosen(least_loaded_.Pick(request_, picture_.Take())), 1);
}

TEST_F(PolicyTest, LeastLoadedSettlesTiesByWhoWasUsedLongestAgo) {
  picture_.Add(1, 7).Add(1, 3).Add(1, 5).Add(2, 1);
  EXPECT_EQ(Chosen(least_loaded_.Pick(request_, picture_.Take())), 1);
}

TEST_F(PolicyTest, RoundRobinLooksAtNoLoad) {
  picture_.Add(0, 7).Add(50, 3).Add(0, 5);
  EXPECT_EQ(Chosen(round_robin_.Pick(request_, picture_.Take())), 1);
}

TEST_F(PolicyTest, OnlyReadyWorkersAreChosen) {
  picture_.Add(0, 0, WorkerState::kDown)
      .Add(0, 0, WorkerState::kConnecting)
      .Add(0, 0, WorkerState::kDraining);
  picture_.Add(9, 9);
  EXPECT_EQ(Chosen(least_loaded_.Pick(request_, picture_.Take())), 3);
  EXPECT_EQ(Chosen(round_robin_.Pick(request_, picture_.Take())), 3);
}

TEST_F(PolicyTest, ExcludedWorkersAreNotChosen) {
  picture_.Add(0, 1).Add(5, 2);
  request_.excluded = {WorkerId{0}};
  EXPECT_EQ(Chosen(least_loaded_.Pick(request_, picture_.Take())), 1);
}

TEST_F(PolicyTest, WorkersOfAnotherModelAreNotChosen) {
  picture_.Add(0, 1);
  picture_.last().model = MakeModel("m");  // of the same name, but not the same
  EXPECT_EQ(Chosen(least_loaded_.Pick(request_, picture_.Take())), -2);
}

TEST_F(PolicyTest, WorkersWithTooSmallAPoolAreNotChosen) {
  picture_.Add(0, 1);
  picture_.last().total_blocks = 4;
  picture_.Add(5, 2);
  request_.pool_tokens = 64;
  EXPECT_EQ(Chosen(least_loaded_.Pick(request_, picture_.Take())), 0);
  request_.pool_tokens = 65;
  EXPECT_EQ(Chosen(least_loaded_.Pick(request_, picture_.Take())), 1);
}

TEST_F(PolicyTest, WaitsWhenEveryWorkerIsFull) {
  picture_.Add(4, 1);
  picture_.last().max_requests = 4;
  EXPECT_EQ(Chosen(least_loaded_.Pick(request_, picture_.Take())), -1);
  picture_.Add(900, 2);
  EXPECT_EQ(Chosen(least_loaded_.Pick(request_, picture_.Take())), 1);
}

TEST_F(PolicyTest, RejectsWithAReasonWhenNoWorkerIsReady) {
  picture_.Add(0, 0, WorkerState::kDown);
  const Decision decision = least_loaded_.Pick(request_, picture_.Take());
  ASSERT_TRUE(std::holds_alternative<Reject>(decision));
  EXPECT_TRUE(absl::IsUnavailable(std::get<Reject>(decision).status));
  EXPECT_EQ(ReasonOf(std::get<Reject>(decision).status), "NO_WORKER");
}

TEST_F(PolicyTest, AgreesWithANaiveTwinOnRandomClusters) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    Picture picture(model_);
    const int workers = static_cast<int>(random() % 6);
    using Key = std::tuple<int, uint64_t, int>;  // in flight, last dispatch, worker
    std::vector<Key> open;
    bool full = false;
    request_.excluded.clear();
    for (int i = 0; i < workers; ++i) {
      const int in_flight = static_cast<int>(random() % 4);
      const uint64_t last = random() % 100 * 10 + static_cast<uint64_t>(i);
      const bool ready = random() % 4 != 0;
      picture.Add(in_flight, last, ready ? WorkerState::kReady : WorkerState::kDown);
      picture.last().max_requests = 3;
      const bool excluded = random() % 5 == 0;
      if (excluded) request_.excluded.push_back(WorkerId{static_cast<uint16_t>(i)});
      if (!ready || excluded) continue;
      if (in_flight < 3) {
        open.emplace_back(in_flight, last, i);
      } else {
        full = true;
      }
    }
    int expected = full ? -1 : -2;
    int oldest = expected;
    if (!open.empty()) {
      expected = std::get<2>(*std::min_element(open.begin(), open.end()));
      oldest = std::get<2>(*std::min_element(open.begin(), open.end(), [](const Key& a, const Key& b) {
        return std::get<1>(a) < std::get<1>(b);
      }));
    }
    const ClusterSnapshot snapshot = picture.Take();
    ASSERT_EQ(Chosen(least_loaded_.Pick(request_, snapshot)), expected) << "round " << round;
    ASSERT_EQ(Chosen(round_robin_.Pick(request_, snapshot)), oldest) << "round " << round;
  }
}

}  // namespace
}  // namespace qanat::router
