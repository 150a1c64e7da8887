// What is expected of a worker that a request is sent to, and how it compares with what comes.
#include <chrono>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/watched_worker.h"
#include "tests/router/forward/forward_fixture.h"

namespace qanat::router {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

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
  // Each open call of the worker is answered with the last message, which says that it found `found` tokens.
  void Answer(int32_t found) {
    v1::GenerateResponse last = News(0, 1);
    last.mutable_usage()->set_cached_tokens(found);
    for (const CallId id : links_[0]->Ids()) links_[0]->Respond(id, last);
  }
  // What was expected in the cache of those that answered.
  std::vector<int32_t> ExpectedHits() const {
    std::vector<int32_t> expected;
    for (const auto& [worker, hits] : metrics_.hits()) expected.push_back(hits.expected);
    return expected;
  }
  WorkerLoad LoadOfFirst() const { return cluster_.Snapshot().loads[0]; }

  ForwardRequest prompt_;
};

TEST_F(ForwarderPredictionTest, ExpectsWhatTheWorkerHas) {
  TellOfBlocks();
  Start(prompt_);
  EXPECT_EQ(LoadOfFirst().queued_tokens, 5) << "of 37 tokens";
  Answer(16);
  ASSERT_THAT(metrics_.hits(), SizeIs(1));
  const auto [worker, hits] = metrics_.hits()[0];
  EXPECT_EQ(worker, "w0");
  EXPECT_EQ(hits.prompt, 37);
  EXPECT_EQ(hits.expected, 32);
  EXPECT_EQ(hits.found, 16);
}

// What was expected of a worker that did not answer has nothing to be compared with.
TEST_F(ForwarderPredictionTest, AttemptsThatFailedExpectNothing) {
  AddWorkers(2);
  TellOfBlocks();
  Start(prompt_);
  links_[0]->Redirect(Only(0), Redirect::kFull, absl::ResourceExhaustedError("full"));
  links_[1]->Break();
  EXPECT_THAT(metrics_.dispatches(), ElementsAre("w0", "w1", "w2"));
  EXPECT_THAT(metrics_.hits(), IsEmpty());
  v1::GenerateResponse last = News(0, 1);
  last.mutable_usage();
  links_[2]->Respond(Only(2), last);
  ASSERT_THAT(metrics_.hits(), SizeIs(1));
  EXPECT_EQ(metrics_.hits()[0].first, "w2");
  EXPECT_EQ(metrics_.hits()[0].second.expected, 0);
}

TEST_F(ForwarderPredictionTest, ExpectsWhatTheWorkerWillHave) {
  Start(prompt_);
  EXPECT_EQ(LoadOfFirst().queued_tokens, 37);
  StartAnother(prompt_);
  EXPECT_EQ(LoadOfFirst().queued_tokens, 42);
  Answer(0);
  EXPECT_THAT(ExpectedHits(), ElementsAre(0, 32));
}

TEST_F(ForwarderPredictionTest, ExpectsNothingWhereTheCacheIsBypassed) {
  TellOfBlocks();
  prompt_.request.set_bypass_prefix_cache(true);
  Start(prompt_);
  Answer(0);
  EXPECT_THAT(ExpectedHits(), ElementsAre(0));
}

TEST_F(ForwarderPredictionTest, AnotherNamespaceExpectsNothing) {
  TellOfBlocks();
  prompt_.cache_namespace.bytes[3] = 1;
  Start(prompt_);
  Answer(0);
  EXPECT_THAT(ExpectedHits(), ElementsAre(0));
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

TEST_F(ForwarderPredictionTest, ScoresOfThePromptAreNotItsFirstToken) {
  Start(prompt_);
  v1::GenerateResponse scores;
  scores.add_prompt_logprobs();
  links_[0]->Respond(Only(0), scores);
  EXPECT_THAT(metrics_.late(), IsEmpty());
  links_[0]->Respond(Only(0), News(0, 1));
  EXPECT_THAT(metrics_.late(), SizeIs(1));
}

TEST_F(ForwarderPredictionTest, AnAnswerInOnePieceDoesNotTellWhenItsFirstTokenCame) {
  prompt_.request.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
  Start(prompt_);
  links_[0]->Respond(Only(0), News(0, 5));
  EXPECT_THAT(metrics_.late(), IsEmpty());
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
