// What is expected of a worker that a request is sent to, and how it compares with what comes.
#include <chrono>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/watched_worker.h"
#include "tests/router/forward/forward_fixture.h"

namespace qanat::router {
namespace {

using testing::ElementsAre;

// A prompt of two blocks and a bit, and a worker that tells of them.
class ForwarderPredictionTest : public CallerFixture {
 protected:
  ForwarderPredictionTest() {
    AddWorkers(1);
    prompt_ = MakeRequest();
    for (int i = 0; i < 34; ++i) prompt_.request.mutable_token_ids()->add_ids(20 + i);
  }
  // The worker has the prompt's blocks.
  void TellOfBlocks() {
    const hash::BlockHasher hasher(hash::kPublicKey, ready_.info.model_fingerprint, 16);
    fakes::WatchedWorker worker(ready_.info.epoch);
    worker.Change(hasher.HashPrompt(prompt_.cache_namespace, prompt_.request.token_ids().ids()));
    for (const api::WatchFrame& frame : worker.Answer(links_[0]->BeginWatch())) links_[0]->Tell(frame);
  }
  WorkerLoad LoadOfFirst() const { return cluster_.Snapshot().loads[0]; }

  ForwardRequest prompt_;
};

TEST_F(ForwarderPredictionTest, ExpectsWhatTheWorkerHas) {
  TellOfBlocks();
  Start(prompt_);
  EXPECT_THAT(metrics_.expected_hits(), ElementsAre(32));
  EXPECT_EQ(LoadOfFirst().queued_tokens, 5) << "of 37 tokens";
}

TEST_F(ForwarderPredictionTest, ExpectsWhatTheWorkerWillHave) {
  Start(prompt_);
  EXPECT_EQ(LoadOfFirst().queued_tokens, 37);
  StartAnother(prompt_);
  EXPECT_THAT(metrics_.expected_hits(), ElementsAre(0, 32));
  EXPECT_EQ(LoadOfFirst().queued_tokens, 42);
}

TEST_F(ForwarderPredictionTest, ExpectsNothingWhereTheCacheIsBypassed) {
  TellOfBlocks();
  prompt_.request.set_bypass_prefix_cache(true);
  Start(prompt_);
  EXPECT_THAT(metrics_.expected_hits(), ElementsAre(0));
}

TEST_F(ForwarderPredictionTest, AnotherNamespaceExpectsNothing) {
  TellOfBlocks();
  prompt_.cache_namespace.bytes[3] = 1;
  Start(prompt_);
  EXPECT_THAT(metrics_.expected_hits(), ElementsAre(0));
}

// A worker would refuse what its pool cannot hold: each choice takes whole blocks of its own.
TEST_F(ForwarderPredictionTest, AWorkerThatCannotHoldAllChoicesIsNotAsked) {
  ready_.info.model.pool_tokens = 11 * 16;
  AddWorkers(1);
  prompt_.request.mutable_sampling()->set_n(10);
  prompt_.request.mutable_stopping()->set_max_tokens(10);
  StartAnother();
  Start(prompt_);
  EXPECT_EQ(InFlight(0), 2) << "2 blocks of the prompt and 10 more";
  EXPECT_EQ(InFlight(1), 0);
}

TEST_F(ForwarderPredictionTest, TellsHowLateTheFirstTokenCame) {
  Start(prompt_);
  clock_.Advance(std::chrono::seconds(100));
  links_[0]->Respond(Only(0), News(0, 1));
  clock_.Advance(std::chrono::seconds(100));
  links_[0]->Respond(Only(0), News(1, 1));
  ASSERT_EQ(metrics_.late().size(), 1u);
  EXPECT_GT(metrics_.late()[0], std::chrono::seconds(90)) << "it was not expected to take so long";
  EXPECT_LT(metrics_.late()[0], std::chrono::seconds(100));
}

TEST_F(ForwarderPredictionTest, ACallThatWasAcceptedIsCountedByTheWorkersLoadOnly) {
  Start(prompt_);
  links_[0]->Accept(Only(0), 3);
  EXPECT_EQ(LoadOfFirst().waiting, 1);
  api::Load load;
  load.load_version = 3;
  load.running = 1;
  links_[0]->BeginWatch();
  links_[0]->Tell({ready_.info.epoch, 1, load});
  EXPECT_EQ(LoadOfFirst().waiting, 0);
  EXPECT_EQ(LoadOfFirst().running, 1);
}

}  // namespace
}  // namespace qanat::router
