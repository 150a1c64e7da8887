#include "router/forward/forwarder.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/watched_worker.h"
#include "tests/router/forward/forward_fixture.h"

namespace qanat::router {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

absl::Status Full() {
  return WithRetryAfter(WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"),
                        std::chrono::milliseconds(5));
}
absl::Status Draining() { return WithReason(absl::UnavailableError("leaving"), kWorkerDraining); }

class ForwarderTest : public ForwardTest {
 protected:
  void Start(ForwardRequest request) { stream_ = forwarder_.Start(std::move(request), sink_); }
  // The only open call of a worker.
  CallId Only(size_t worker) const {
    const std::vector<CallId> ids = links_[worker]->Ids();
    EXPECT_EQ(ids.size(), 1u) << "worker " << worker;
    return ids.empty() ? 0 : ids.front();
  }

  const std::shared_ptr<RecordingStreamSink> sink_ = std::make_shared<RecordingStreamSink>();
  std::shared_ptr<ForwardedStream> stream_;
};

TEST_F(ForwarderTest, CarriesARequestToAWorkerAndTheAnswerBack) {
  AddWorkers(1);
  ForwardRequest request = MakeRequest();
  request.cache_namespace.bytes[0] = 42;
  request.deadline = clock_.Now() + std::chrono::seconds(5);
  Start(std::move(request));
  const CallId id = Only(0);
  EXPECT_EQ(links_[0]->At(id).call.request.token_ids().ids_size(), 3);
  EXPECT_EQ(links_[0]->At(id).call.request.sampling().seed(), 5u);
  EXPECT_EQ(links_[0]->At(id).call.cache_namespace.bytes[0], 42);
  EXPECT_EQ(links_[0]->At(id).call.deadline, clock_.Now() + std::chrono::seconds(5));
  EXPECT_EQ(InFlight(0), 1);

  links_[0]->Accept(id);
  links_[0]->Respond(id, News(0, 2));
  v1::GenerateResponse last = News(2, 1);
  last.mutable_finish()->set_reason(v1::FINISH_REASON_LENGTH);
  last.mutable_usage()->set_cached_tokens(16);
  last.mutable_timings()->set_preemptions(1);
  links_[0]->Respond(id, last);
  links_[0]->End(id, absl::OkStatus());

  ASSERT_EQ(sink_->responses().size(), 2u);
  EXPECT_EQ(sink_->responses()[1].first_token(), 2);
  EXPECT_THAT(sink_->responses()[1].timings().workers(), ElementsAre("w0"));
  EXPECT_EQ(sink_->tokens(), 3);
  EXPECT_THAT(sink_->ends(), ElementsAre(absl::OkStatus()));
  EXPECT_EQ(InFlight(0), 0);
  EXPECT_THAT(metrics_.outcomes(), ElementsAre("route"));
  EXPECT_THAT(metrics_.dispatches(), ElementsAre(Pair("w0", 3)));
  EXPECT_THAT(metrics_.cached(), ElementsAre(Pair("w0", 16)));
  EXPECT_EQ(metrics_.relayed(), 3);
}

TEST_F(ForwarderTest, TokenIdsReachTheCallerOnlyWhenAskedFor) {
  AddWorkers(1);
  Start(MakeRequest());
  EXPECT_TRUE(links_[0]->At(Only(0)).call.request.output().token_ids());
  links_[0]->Respond(Only(0), News(0, 2));
  EXPECT_EQ(sink_->responses()[0].token_ids_size(), 0);
  EXPECT_EQ(sink_->responses()[0].text(), "xx");

  const auto asking = std::make_shared<RecordingStreamSink>();
  ForwardRequest request = MakeRequest();
  request.request.mutable_output()->set_token_ids(true);
  forwarder_.Start(std::move(request), asking);
  links_[0]->Respond(links_[0]->Ids().back(), News(0, 2));
  EXPECT_EQ(asking->responses()[0].token_ids_size(), 2);
}

TEST_F(ForwarderTest, PassesOnChoicesAndScoresAsTheyAre) {
  AddWorkers(1);
  ForwardRequest request = MakeRequest();
  request.request.mutable_sampling()->set_n(2);
  request.request.mutable_output()->set_logprobs(1);
  request.request.mutable_output()->set_prompt_logprobs(0);
  request.request.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
  Start(std::move(request));
  const CallId id = Only(0);
  EXPECT_EQ(links_[0]->At(id).call.request.sampling().n(), 2);
  EXPECT_EQ(links_[0]->At(id).call.request.output().delivery(), v1::DELIVERY_FINAL_ONLY);
  for (const int choice : {1, 0}) {
    v1::GenerateResponse news = News(0, 2);
    news.set_index(choice);
    news.add_logprobs()->set_logprob(-1);
    news.add_logprobs()->set_logprob(-2);
    if (choice == 0) news.add_prompt_logprobs()->set_logprob(-3);
    news.mutable_finish()->set_reason(v1::FINISH_REASON_LENGTH);
    links_[0]->Respond(id, news);
  }
  links_[0]->End(id, absl::OkStatus());
  const std::vector<v1::GenerateResponse> responses = sink_->responses();
  ASSERT_EQ(responses.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(responses[i].index(), i == 0 ? 1 : 0);
    EXPECT_EQ(responses[i].logprobs_size(), 2);
    EXPECT_EQ(responses[i].prompt_logprobs_size(), i == 0 ? 0 : 1);
    EXPECT_EQ(responses[i].token_ids_size(), 0) << "not asked for";
  }
  EXPECT_EQ(sink_->tokens(), 4);
  EXPECT_THAT(sink_->ends(), ElementsAre(absl::OkStatus()));
}

TEST_F(ForwarderTest, RefusesWhenNoWorkerIsReady) {
  AddWorkers(1);
  const ForwardRequest request = MakeRequest();
  links_[0]->Break();
  Start(request);
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(sink_->ends()[0]));
  EXPECT_EQ(ReasonOf(sink_->ends()[0]), "NO_WORKER");
  EXPECT_THAT(metrics_.outcomes(), ElementsAre("reject"));
}

TEST_F(ForwarderTest, RefusesWithARetryHintWhenEveryWorkerIsFull) {
  AddWorkers(1);
  for (int i = 0; i < ready_.info.max_requests; ++i) {
    forwarder_.Start(MakeRequest(), std::make_shared<RecordingStreamSink>());
  }
  Start(MakeRequest());
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(sink_->ends()[0]));
  EXPECT_EQ(ReasonOf(sink_->ends()[0]), "QUEUE_FULL");
  EXPECT_TRUE(RetryAfterOf(sink_->ends()[0]).has_value());
  EXPECT_EQ(metrics_.outcomes().back(), "wait");
}

TEST_F(ForwarderTest, BeforeTheFirstTokenALostWorkerIsReplacedInSilence) {
  AddWorkers(2);
  Start(MakeRequest());
  links_[0]->Accept(Only(0));
  links_[0]->Break();
  EXPECT_THAT(sink_->ends(), IsEmpty());
  EXPECT_THAT(sink_->responses(), IsEmpty());
  EXPECT_EQ(InFlight(0), 0);
  EXPECT_EQ(InFlight(1), 1);
  links_[1]->Respond(Only(1), News(0, 1));
  links_[1]->End(Only(1), absl::OkStatus());
  EXPECT_EQ(sink_->responses().size(), 1u);
  EXPECT_THAT(sink_->ends(), ElementsAre(absl::OkStatus()));
}

TEST_F(ForwarderTest, AfterTheFirstTokenALostWorkerEndsTheStream) {
  AddWorkers(2);
  Start(MakeRequest());
  links_[0]->Respond(Only(0), News(0, 3));
  links_[0]->Break();
  EXPECT_THAT(links_[1]->Ids(), IsEmpty());
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(sink_->ends()[0]));
  EXPECT_EQ(ReasonOf(sink_->ends()[0]), kWorkerLost);
  ASSERT_EQ(sink_->responses().size(), 2u);
  const v1::GenerateResponse last = sink_->responses()[1];
  EXPECT_EQ(last.finish().reason(), v1::FINISH_REASON_ERROR);
  EXPECT_EQ(last.first_token(), 3);
  EXPECT_EQ(last.request_id(), "mine");
  EXPECT_EQ(last.usage().prompt_tokens(), 3);
  EXPECT_EQ(last.usage().completion_tokens(), 3);
  EXPECT_EQ(last.seed(), 5u);
  EXPECT_THAT(last.timings().workers(), ElementsAre("w0"));
  EXPECT_EQ(InFlight(0), 0);
}

TEST_F(ForwarderTest, AFinishThatWasSentIsNotFollowedByAnother) {
  AddWorkers(1);
  Start(MakeRequest());
  v1::GenerateResponse response = News(0, 1);
  response.mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
  links_[0]->Respond(Only(0), response);
  links_[0]->Break();
  EXPECT_EQ(sink_->responses().size(), 1u);
  EXPECT_EQ(sink_->ends().size(), 1u);
}

TEST_F(ForwarderTest, WithoutAnotherWorkerALostOneIsTold) {
  AddWorkers(1);
  Start(MakeRequest());
  links_[0]->Break();
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_EQ(ReasonOf(sink_->ends()[0]), kWorkerLost);
  EXPECT_THAT(sink_->responses(), IsEmpty());
}

TEST_F(ForwarderTest, TriesThreeWorkersAtMost) {
  AddWorkers(4);
  Start(MakeRequest());
  for (int worker = 0; worker < 3; ++worker) {
    ASSERT_THAT(sink_->ends(), IsEmpty());
    links_[worker]->Break();
  }
  EXPECT_EQ(sink_->ends().size(), 1u);
  EXPECT_THAT(links_[3]->Ids(), IsEmpty());
}

TEST_F(ForwarderTest, ARefusalForWantOfRoomGoesToAnotherWorker) {
  AddWorkers(2);
  Start(MakeRequest());
  links_[0]->End(Only(0), Full());
  EXPECT_THAT(sink_->ends(), IsEmpty());
  links_[1]->End(Only(1), Full());
  // Both refused: the worker's own words, retry hint included.
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(sink_->ends()[0]));
  EXPECT_EQ(RetryAfterOf(sink_->ends()[0]), std::chrono::milliseconds(5));
}

TEST_F(ForwarderTest, ARedirectedRequestGoesToTwoMoreWorkersAtMost) {
  AddWorkers(4);
  Start(MakeRequest());
  for (size_t worker = 0; worker < 3; ++worker) {
    EXPECT_THAT(sink_->ends(), IsEmpty());
    links_[worker]->Redirect(Only(worker), Redirect::kFull, Full());
  }
  EXPECT_THAT(links_[3]->Ids(), IsEmpty());
  EXPECT_THAT(sink_->ends(), ElementsAre(Full())) << "the worker's own words";
  EXPECT_EQ(RetryAfterOf(sink_->ends()[0]), std::chrono::milliseconds(5));
  EXPECT_THAT(metrics_.redirects(), ElementsAre("full", "full", "full"));
  for (size_t worker = 0; worker < 4; ++worker) EXPECT_EQ(InFlight(worker), 0);
}

TEST_F(ForwarderTest, AWorkerThatRedirectsBecauseItLeavesGetsNothingNew) {
  AddWorkers(2);
  Start(MakeRequest());
  links_[0]->Redirect(Only(0), Redirect::kDraining, Draining());
  EXPECT_EQ(links_[1]->Ids().size(), 1u);
  EXPECT_EQ(cluster_.Snapshot().worker(WorkerId{0}).state, WorkerState::kDraining);
  EXPECT_THAT(metrics_.redirects(), ElementsAre("draining"));
}

TEST_F(ForwarderTest, ACancelledRequestIsNotRedirected) {
  AddWorkers(2);
  Start(MakeRequest());
  const CallId id = Only(0);
  stream_->Cancel();
  links_[0]->Redirect(id, Redirect::kFull, Full());
  EXPECT_THAT(links_[1]->Ids(), IsEmpty());
  EXPECT_EQ(sink_->ends().size(), 1u);
}

TEST_F(ForwarderTest, ADrainingWorkerIsLeftByThisRequestAndTheNext) {
  AddWorkers(2);
  Start(MakeRequest());
  links_[0]->End(Only(0), Draining());
  EXPECT_EQ(links_[1]->Ids().size(), 1u);
  EXPECT_EQ(cluster_.Snapshot().worker(WorkerId{0}).state, WorkerState::kDraining);
  forwarder_.Start(MakeRequest(), std::make_shared<RecordingStreamSink>());
  EXPECT_EQ(links_[1]->Ids().size(), 2u);
}

TEST_F(ForwarderTest, OtherErrorsOfAWorkerAreTold) {
  AddWorkers(2);
  for (const absl::Status& status :
       {absl::InvalidArgumentError("no"), absl::InternalError("bug"), absl::DeadlineExceededError("late")}) {
    const auto sink = std::make_shared<RecordingStreamSink>();
    forwarder_.Start(MakeRequest(), sink);
    const size_t worker = links_[0]->Ids().empty() ? 1 : 0;
    links_[worker]->End(Only(worker), status);
    EXPECT_THAT(sink->ends(), ElementsAre(status));
  }
}

TEST_F(ForwarderTest, AnErrorAfterAcceptanceIsTold) {
  AddWorkers(2);
  Start(MakeRequest());
  links_[0]->Accept(Only(0));
  links_[0]->End(Only(0), Full());
  EXPECT_THAT(sink_->ends(), ElementsAre(Full()));
}

TEST_F(ForwarderTest, AWorkerThatJustLeftIsPassedOver) {
  AddWorkers(2);
  links_[0]->Disconnect();
  Start(MakeRequest());
  EXPECT_EQ(InFlight(0), 0);
  EXPECT_EQ(links_[1]->Ids().size(), 1u);
  EXPECT_THAT(metrics_.dispatches(), ElementsAre(Pair("w1", 3)));
}

TEST_F(ForwarderTest, CancelReachesTheWorkerAndItsEndTheCaller) {
  AddWorkers(1);
  Start(MakeRequest());
  const CallId id = Only(0);
  stream_->Cancel();
  stream_->Cancel();
  EXPECT_TRUE(links_[0]->At(id).cancelled);
  EXPECT_EQ(InFlight(0), 1) << "the worker still has it";
  links_[0]->End(id, absl::CancelledError("cancelled"));
  EXPECT_EQ(sink_->ends().size(), 1u);
  EXPECT_EQ(InFlight(0), 0);
}

TEST_F(ForwarderTest, ACancelledRequestIsNotTriedAgain) {
  AddWorkers(2);
  Start(MakeRequest());
  stream_->Cancel();
  links_[0]->Break();
  EXPECT_THAT(links_[1]->Ids(), IsEmpty());
  EXPECT_EQ(sink_->ends().size(), 1u);
}

TEST_F(ForwarderTest, ARequestOutOfTimeIsNotTriedAgain) {
  AddWorkers(2);
  ForwardRequest request = MakeRequest();
  request.deadline = clock_.Now() + std::chrono::seconds(1);
  Start(std::move(request));
  clock_.Advance(std::chrono::seconds(1));
  links_[0]->Break();
  EXPECT_THAT(links_[1]->Ids(), IsEmpty());
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(sink_->ends()[0]));
}

// A prompt of two blocks and a bit, and a worker that tells of them.
class ForwarderPredictionTest : public ForwarderTest {
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
  const auto sibling = forwarder_.Start(prompt_, std::make_shared<RecordingStreamSink>());
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
