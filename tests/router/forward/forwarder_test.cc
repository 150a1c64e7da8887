// One request to one worker, and refusals.
#include "router/forward/forwarder.h"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/router/forward/forward_fixture.h"

namespace qanat::router {
namespace {

using testing::ElementsAre;

using ForwarderTest = CallerFixture;

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
  EXPECT_THAT(metrics_.dispatches(), ElementsAre("w0"));
  EXPECT_EQ(metrics_.relayed(), 3);
}

TEST_F(ForwarderTest, TokenIdsReachTheCallerOnlyWhenAskedFor) {
  StartAmong(1);
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
    StartAnother();
  }
  Start(MakeRequest());
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(sink_->ends()[0]));
  EXPECT_EQ(ReasonOf(sink_->ends()[0]), "QUEUE_FULL");
  EXPECT_TRUE(RetryAfterOf(sink_->ends()[0]).has_value());
  EXPECT_EQ(metrics_.outcomes().back(), "wait");
}

TEST_F(ForwarderTest, CancelReachesTheWorkerAndItsEndTheCaller) {
  StartAmong(1);
  const CallId id = Only(0);
  stream_->Cancel();
  stream_->Cancel();
  EXPECT_TRUE(links_[0]->At(id).cancelled);
  EXPECT_EQ(InFlight(0), 1) << "the worker still has it";
  links_[0]->End(id, absl::CancelledError("cancelled"));
  EXPECT_EQ(sink_->ends().size(), 1u);
  EXPECT_EQ(InFlight(0), 0);
}

}  // namespace
}  // namespace qanat::router
