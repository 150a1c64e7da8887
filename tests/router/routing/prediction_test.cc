#include "router/routing/prediction.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/router/routing/picture.h"

namespace qanat::router {
namespace {

constexpr WorkerId kFirst{0};
constexpr WorkerId kSecond{1};
constexpr WorkerId kThird{2};

class PredictionTest : public testing::Test {
 protected:
  PredictionTest() {
    request_.model = model_.get();
    picture_.Add(0, 1).Add(0, 2).Add(0, 3);
  }
  std::vector<int32_t> Depths() {
    return PredictDepths(request_, picture_.Take(), {kFirst, kSecond, kThird});
  }

  const std::shared_ptr<const Model> model_ = MakeModel("m");
  const std::vector<hash::BlockHash> prompt_ = PromptHashes(1, 10);
  Picture picture_{model_};
  Cache cache_;
  RouteRequest request_;
};

TEST_F(PredictionTest, AHitLeavesTheLastTokenToBeComputed) {
  request_.prompt_tokens = 33;
  EXPECT_EQ(HitTokens(request_, 0), 0);
  EXPECT_EQ(HitTokens(request_, 1), 16);
  EXPECT_EQ(HitTokens(request_, 2), 32);
  request_.prompt_tokens = 32;
  EXPECT_EQ(HitTokens(request_, 2), 16);
  request_.prompt_tokens = 0;
  EXPECT_EQ(HitTokens(request_, 2), 0);
}

TEST_F(PredictionTest, NothingKnownIsDepthZero) {
  request_.hashes = prompt_;
  EXPECT_EQ(Depths(), (std::vector<int32_t>{0, 0, 0}));
  request_.index = &cache_.index();
  EXPECT_EQ(Depths(), (std::vector<int32_t>{0, 0, 0}));
}

TEST_F(PredictionTest, CreditsComeOnTopOfWhatIsResident) {
  PendingCredits pending;
  request_.hashes = prompt_;
  request_.index = &cache_.index();
  request_.pending = &pending;
  cache_.Hold(picture_, 0, prompt_, 3);
  cache_.Hold(picture_, 2, prompt_, 5);
  const auto to_first = pending.Credit(kFirst, absl::MakeSpan(prompt_).subspan(3));
  const auto to_second = pending.Credit(kSecond, absl::MakeSpan(prompt_).first(4));
  EXPECT_EQ(Depths(), (std::vector<int32_t>{10, 4, 5}));
}

TEST_F(PredictionTest, AWorkerThatHasToldNothingIsLikeTheOthers) {
  StepModel slow{};
  slow.token_us = 300;
  slow.fixed_us = 10;
  StepModel fast{};
  fast.token_us = 100;
  fast.fixed_us = 30;
  picture_.load(0).step_model = slow;
  picture_.load(1).step_model = fast;
  const ClusterSnapshot snapshot = picture_.Take();
  const FleetModel fleet(snapshot, {kFirst, kSecond, kThird});
  EXPECT_DOUBLE_EQ(fleet.Of(snapshot.load(kThird)).token_us, 200);
  EXPECT_DOUBLE_EQ(fleet.Of(snapshot.load(kThird)).fixed_us, 20);
  EXPECT_DOUBLE_EQ(fleet.Of(snapshot.load(kFirst)).token_us, 275) << "drawn towards the mean";
  EXPECT_DOUBLE_EQ(fleet.Of(snapshot.load(kFirst)).fixed_us, 10);
  const FleetModel strangers(snapshot, {kThird});
  EXPECT_GT(strangers.Of(snapshot.load(kThird)).token_us, 0);
}

TEST_F(PredictionTest, TheFirstTokenWaitsForTheQueueItsPrefillAndAStep) {
  StepModel model{};
  model.fixed_us = 1000;
  model.token_us = 100;
  request_.prompt_tokens = 320;
  WorkerLoad load;
  load.queued_tokens = 50;
  EXPECT_DOUBLE_EQ(PredictTtftMs(request_, load, model, 160), 5 + 16 + 1);
}

TEST_F(PredictionTest, MemoryIsUnusedUntilAWorkerTellsOtherwise) {
  Worker worker;
  worker.total_blocks = 100;
  WorkerLoad load;
  EXPECT_EQ(UsedBlocks(worker, load), 0);
  load.running = 1;
  EXPECT_EQ(UsedBlocks(worker, load), 100);
  load.free_blocks = 20;
  load.cached_blocks = 50;
  EXPECT_EQ(UsedBlocks(worker, load), 30);
  EXPECT_DOUBLE_EQ(MemoryUse(worker, load, 20), 0.5);
  EXPECT_DOUBLE_EQ(MemoryUse(worker, load, 500), 1);
}

}  // namespace
}  // namespace qanat::router
