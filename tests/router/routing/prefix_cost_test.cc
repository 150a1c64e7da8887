#include "router/routing/prefix_cost.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "router/routing/pricing.h"
#include "tests/router/routing/picture.h"

namespace qanat::router {
namespace {

constexpr StepModel kModel{.fixed_us = 500,
                           .sequence_us = 100,
                           .weights_us = 5000,
                           .token_us = 50,
                           .context_us = 0.05,
                           .attention_us = 0.001};

class PrefixCostTest : public testing::Test {
 protected:
  PrefixCostTest() {
    request_.model = model_.get();
    request_.index = &cache_.index();
    request_.pending = &pending_;
    Ask(prompt_);
  }
  void Ask(const std::vector<hash::BlockHash>& prompt) {
    request_.hashes = prompt;
    request_.prompt_tokens = static_cast<int32_t>(prompt.size()) * 16;
    request_.max_new_tokens = 64;
  }
  void AddWorkers(int count) {
    for (int i = 0; i < count; ++i) {
      picture_.Add(0, 0);
      picture_.last().total_blocks = 10'000;
      picture_.last_load().free_blocks = 10'000;
      picture_.last_load().step_model = kModel;
    }
  }
  Route Pick() const { return std::get<Route>(policy_.Pick(request_, picture_.Take())); }
  int Worker() const { return static_cast<int>(ToIndex(Pick().worker)); }
  void Hold(size_t worker, size_t depth) { cache_.Hold(picture_, worker, prompt_, depth); }

  const std::shared_ptr<const Model> model_ = MakeModel("m");
  const std::vector<hash::BlockHash> prompt_ = PromptHashes(1, 100);
  Picture picture_{model_};
  Cache cache_;
  PendingCredits pending_;
  RouteRequest request_;
  PrefixCost policy_;
};

TEST_F(PrefixCostTest, GoesWhereThePromptIs) {
  AddWorkers(4);
  Hold(2, 60);
  Hold(1, 20);
  const Route route = Pick();
  EXPECT_EQ(ToIndex(route.worker), 2u);
  EXPECT_EQ(route.hit_tokens, 960);
  // 640 tokens behind 960 at 50 us and 0.001 us a key, and a step.
  EXPECT_NEAR(route.ttft_ms, 640 * (50 + 0.001 * 1280) / 1000 + 5.5, 0.01);
}

TEST_F(PrefixCostTest, ThePriceOfWorkThereAndOfWorkToDoAreTheSame) {
  AddWorkers(2);
  Hold(0, 50);
  picture_.load(0).queued_tokens = 700;
  EXPECT_EQ(Worker(), 0);
  picture_.load(0).queued_tokens = 900;
  EXPECT_EQ(Worker(), 1);
}

TEST_F(PrefixCostTest, SiblingsOfANewPrefixFollowTheFirst) {
  AddWorkers(8);
  const WorkerId other{static_cast<uint16_t>((Worker() + 1) % 8)};
  const auto guard = pending_.Credit(other, prompt_);
  const Route route = Pick();
  EXPECT_EQ(route.worker, other);
  EXPECT_EQ(route.hit_tokens, 99 * 16);
}

TEST_F(PrefixCostTest, DecodingPullsAwayFromALoadedWorker) {
  AddWorkers(2);
  Hold(0, 60);
  const auto decode = [this](int running) {
    picture_.load(0).running = running;
    picture_.load(0).context_tokens = running * 1000;
  };
  decode(1);
  EXPECT_EQ(Worker(), 0);
  decode(100);
  EXPECT_EQ(Worker(), 1) << "the others' steps grow longer, and its own are long";
  request_.max_new_tokens = 1;
  EXPECT_EQ(Worker(), 0) << "one token is soon done";
}

TEST_F(PrefixCostTest, EveryChoiceHasItsPrice) {
  AddWorkers(2);
  Hold(0, 60);
  picture_.load(0).running = 1;
  picture_.load(0).context_tokens = 1000;
  EXPECT_EQ(Worker(), 0);
  request_.choices = 16;
  EXPECT_EQ(Worker(), 1) << "sixteen more in each step of the one that decodes there";
  Hold(1, 60);
  picture_.load(0).running = 0;
  picture_.load(0).context_tokens = 0;
  // Room for one choice's output, not for sixteen.
  picture_.load(0).free_blocks = 150;
  picture_.worker(0).total_blocks = 200;
  EXPECT_EQ(Worker(), 1);
}

TEST_F(PrefixCostTest, OurOwnOpenCallsCountBeforeTheWorkerTellsOfThem) {
  AddWorkers(2);
  Hold(0, 30);
  picture_.load(0).in_flight = 100;
  EXPECT_EQ(Worker(), 1);
}

TEST_F(PrefixCostTest, AFullPoolIsDear) {
  AddWorkers(2);
  Hold(0, 30);
  picture_.load(0).running = picture_.load(1).running = 1;
  picture_.load(0).free_blocks = 0;
  picture_.load(0).cached_blocks = 5000;
  EXPECT_EQ(Worker(), 0);
  picture_.load(0).cached_blocks = 150;
  EXPECT_EQ(Worker(), 1);
}

TEST_F(PrefixCostTest, AFasterWorkerIsWorthMore) {
  AddWorkers(2);
  picture_.load(1).step_model.token_us = 25;
  for (uint64_t name = 0; name < 20; ++name) {
    const auto prompt = PromptHashes(name, 100);
    Ask(prompt);
    EXPECT_EQ(Worker(), 1);
  }
}

TEST_F(PrefixCostTest, EqualWorkersShareNewPromptsByRendezvous) {
  AddWorkers(4);
  std::map<int, int> picks;
  for (uint64_t name = 0; name < 2000; ++name) {
    const auto prompt = PromptHashes(name, 20);
    Ask(prompt);
    ++picks[Worker()];
  }
  for (int worker = 0; worker < 4; ++worker) EXPECT_NEAR(picks[worker], 500, 100);
}

TEST_F(PrefixCostTest, RoutersAgreeWhateverTheirListsLookLike) {
  AddWorkers(4);
  Picture other(model_);
  for (size_t i = 4; i-- > 0;) {
    other.Add(0, 0);
    other.last() = picture_.worker(i);
    other.last_load() = picture_.load(i);
  }
  for (uint64_t name = 0; name < 100; ++name) {
    const auto prompt = PromptHashes(name, 20);
    Ask(prompt);
    const Route there = std::get<Route>(policy_.Pick(request_, other.Take()));
    EXPECT_EQ(other.Take().worker(there.worker).address, picture_.Take().worker(Pick().worker).address);
  }
}

TEST_F(PrefixCostTest, ASharedBeginningThatAllHoldDoesNotTieItsPromptsTogether) {
  AddWorkers(4);
  for (size_t worker = 0; worker < 4; ++worker) Hold(worker, 10);
  std::map<int, int> picks;
  for (uint64_t name = 0; name < 400; ++name) {
    auto prompt = PromptHashes(name + 10, 20);
    std::copy_n(prompt_.begin(), 10, prompt.begin());
    Ask(prompt);
    ++picks[Worker()];
  }
  for (int worker = 0; worker < 4; ++worker) EXPECT_GT(picks[worker], 50);
}

TEST_F(PrefixCostTest, PromptsOfLessThanABlockGoToTheLeastLoaded) {
  AddWorkers(3);
  request_.hashes = {};
  request_.prompt_tokens = 7;
  request_.max_new_tokens = 0;
  picture_.load(0).in_flight = 1;
  picture_.load(1).last_dispatch = 9;
  picture_.load(2).last_dispatch = 8;
  EXPECT_EQ(Worker(), 2);
}

TEST_F(PrefixCostTest, EqualArgumentsGiveEqualDecisions) {
  AddWorkers(5);
  Hold(3, 1);
  const Route first = Pick();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Pick().worker, first.worker);
}

TEST_F(PrefixCostTest, MoreOfThePromptNeverCostsMore) {
  std::mt19937 random(11);
  AddWorkers(3);
  for (int round = 0; round < 300; ++round) {
    for (size_t i = 0; i < 3; ++i) {
      WorkerLoad& load = picture_.load(i);
      load.running = static_cast<int32_t>(random() % 40);
      load.queued_tokens = random() % 3000;
      load.context_tokens = load.running * static_cast<int64_t>(random() % 2000);
      load.free_blocks = random() % 10'000;
      load.step_model.token_us = static_cast<double>(random() % 100);
    }
    const ClusterSnapshot snapshot = picture_.Take();
    const Pricing pricing(request_, snapshot, {WorkerId{0}, WorkerId{1}, WorkerId{2}});
    for (const WorkerId id : {WorkerId{0}, WorkerId{1}, WorkerId{2}}) {
      for (int32_t hit = 16; hit < request_.prompt_tokens; hit += 16) {
        ASSERT_LE(pricing.Cost(id, hit), pricing.Cost(id, hit - 16));
      }
    }
  }
}

}  // namespace
}  // namespace qanat::router
