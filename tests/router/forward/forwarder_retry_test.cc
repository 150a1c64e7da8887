// Workers that are lost, full or leaving, and who goes on elsewhere.
#include <chrono>
#include <memory>
#include <utility>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/router/forward/forward_fixture.h"

namespace qanat::router {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using ForwarderRetryTest = CallerFixture;

absl::Status Full() {
  return WithRetryAfter(WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"),
                        std::chrono::milliseconds(5));
}
v1::GenerateResponse Finished(int choice, v1::FinishReason reason) {
  v1::GenerateResponse response;
  response.set_index(choice);
  response.mutable_finish()->set_reason(reason);
  return response;
}

absl::Status Draining() { return WithReason(absl::UnavailableError("leaving"), kWorkerDraining); }

TEST_F(ForwarderRetryTest, BeforeTheFirstTokenALostWorkerIsReplacedInSilence) {
  StartAmong(2);
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

TEST_F(ForwarderRetryTest, AfterTheFirstTokenALostWorkerEndsTheStream) {
  StartAmong(2);
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

TEST_F(ForwarderRetryTest, AWholeAnswerIsOkAlthoughItsWorkerIsLostBeforeItSaysSo) {
  for (const v1::FinishReason reason : {v1::FINISH_REASON_STOP, v1::FINISH_REASON_LENGTH}) {
    const auto sink = std::make_shared<RecordingStreamSink>();
    AddWorkers(1);
    ForwardRequest request = MakeRequest();
    request.request.mutable_sampling()->set_n(2);
    const auto stream = forwarder_.Start(std::move(request), sink);
    for (const int choice : {1, 0}) links_.back()->Respond(Only(links_.size() - 1), Finished(choice, reason));
    links_.back()->Break();
    EXPECT_EQ(sink->responses().size(), 2u) << "a finish is not followed by another";
    EXPECT_THAT(sink->ends(), ElementsAre(absl::OkStatus()));
  }
}

TEST_F(ForwarderRetryTest, AnAnswerOfWhichAChoiceIsMissingOrFailedIsNot) {
  for (const bool failed : {false, true}) {
    const auto sink = std::make_shared<RecordingStreamSink>();
    AddWorkers(1);
    ForwardRequest request = MakeRequest();
    request.request.mutable_sampling()->set_n(2);
    const auto stream = forwarder_.Start(std::move(request), sink);
    const size_t worker = links_.size() - 1;
    links_[worker]->Respond(Only(worker), Finished(1, v1::FINISH_REASON_STOP));
    if (failed) links_[worker]->Respond(Only(worker), Finished(0, v1::FINISH_REASON_ERROR));
    links_[worker]->Break();
    ASSERT_EQ(sink->responses().size(), 2u);
    EXPECT_EQ(sink->responses()[1].index(), 0);
    EXPECT_EQ(sink->responses()[1].finish().reason(), v1::FINISH_REASON_ERROR);
    ASSERT_EQ(sink->ends().size(), 1u);
    EXPECT_EQ(ReasonOf(sink->ends()[0]), kWorkerLost);
  }
}

TEST_F(ForwarderRetryTest, WithoutAnotherWorkerALostOneIsTold) {
  StartAmong(1);
  links_[0]->Break();
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_EQ(ReasonOf(sink_->ends()[0]), kWorkerLost);
  EXPECT_THAT(sink_->responses(), IsEmpty());
}

TEST_F(ForwarderRetryTest, TwoWorkersAtMostAreLostToOneRequest) {
  StartAmong(3);
  links_[0]->Break();
  ASSERT_THAT(sink_->ends(), IsEmpty());
  links_[1]->Break();
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_EQ(ReasonOf(sink_->ends()[0]), kWorkerLost);
  EXPECT_THAT(links_[2]->Ids(), IsEmpty());
}

TEST_F(ForwarderRetryTest, RedirectsAndLossesAreCountedApart) {
  StartAmong(5);
  links_[0]->Redirect(Only(0), Redirect::kFull, Full());
  links_[1]->Break();
  links_[2]->Redirect(Only(2), Redirect::kFull, Full());
  ASSERT_THAT(sink_->ends(), IsEmpty());
  links_[3]->Break();
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_EQ(ReasonOf(sink_->ends()[0]), kWorkerLost);
  EXPECT_THAT(links_[4]->Ids(), IsEmpty());
}

TEST_F(ForwarderRetryTest, APauseWhileTheNextWorkerBeginsIsNotLost) {
  StartAmong(2);
  links_[1]->WhileStarting([this](CallId id) {
    links_[1]->Respond(id, News(0, 1));
    stream_->SetPaused(true);
  });
  links_[0]->Break();
  EXPECT_TRUE(links_[1]->At(Only(1)).paused);
  stream_->SetPaused(false);
  EXPECT_FALSE(links_[1]->At(Only(1)).paused);
}

TEST_F(ForwarderRetryTest, ARefusalForWantOfRoomGoesToAnotherWorker) {
  StartAmong(2);
  links_[0]->End(Only(0), Full());
  EXPECT_THAT(sink_->ends(), IsEmpty());
  links_[1]->End(Only(1), Full());
  // Both refused: the worker's own words, retry hint included.
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(sink_->ends()[0]));
  EXPECT_EQ(RetryAfterOf(sink_->ends()[0]), std::chrono::milliseconds(5));
}

TEST_F(ForwarderRetryTest, ARedirectedRequestGoesToTwoMoreWorkersAtMost) {
  StartAmong(4);
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

TEST_F(ForwarderRetryTest, AWorkerThatRedirectsBecauseItLeavesGetsNothingNew) {
  StartAmong(2);
  links_[0]->Redirect(Only(0), Redirect::kDraining, Draining());
  EXPECT_EQ(links_[1]->Ids().size(), 1u);
  EXPECT_EQ(cluster_.Snapshot().worker(WorkerId{0}).state, WorkerState::kDraining);
  EXPECT_THAT(metrics_.redirects(), ElementsAre("draining"));
}

TEST_F(ForwarderRetryTest, ACancelledRequestIsNotRedirected) {
  StartAmong(2);
  const CallId id = Only(0);
  stream_->Cancel();
  links_[0]->Redirect(id, Redirect::kFull, Full());
  EXPECT_THAT(links_[1]->Ids(), IsEmpty());
  EXPECT_EQ(sink_->ends().size(), 1u);
}

TEST_F(ForwarderRetryTest, ADrainingWorkerIsLeftByThisRequestAndTheNext) {
  StartAmong(2);
  links_[0]->End(Only(0), Draining());
  EXPECT_EQ(links_[1]->Ids().size(), 1u);
  EXPECT_EQ(cluster_.Snapshot().worker(WorkerId{0}).state, WorkerState::kDraining);
  StartAnother();
  EXPECT_EQ(links_[1]->Ids().size(), 2u);
}

TEST_F(ForwarderRetryTest, OtherErrorsOfAWorkerAreTold) {
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

TEST_F(ForwarderRetryTest, AnErrorAfterAcceptanceIsTold) {
  StartAmong(2);
  links_[0]->Accept(Only(0));
  links_[0]->End(Only(0), Full());
  EXPECT_THAT(sink_->ends(), ElementsAre(Full()));
}

TEST_F(ForwarderRetryTest, AWorkerThatJustLeftIsPassedOver) {
  AddWorkers(2);
  links_[0]->Disconnect();
  Start(MakeRequest());
  EXPECT_EQ(InFlight(0), 0);
  EXPECT_EQ(links_[1]->Ids().size(), 1u);
  EXPECT_THAT(metrics_.dispatches(), ElementsAre("w1"));
}

TEST_F(ForwarderRetryTest, ACancelledRequestIsNotTriedAgain) {
  StartAmong(2);
  stream_->Cancel();
  links_[0]->Break();
  EXPECT_THAT(links_[1]->Ids(), IsEmpty());
  EXPECT_EQ(sink_->ends().size(), 1u);
}

TEST_F(ForwarderRetryTest, ARequestOutOfTimeIsNotTriedAgain) {
  AddWorkers(2);
  ForwardRequest request = MakeRequest();
  request.deadline = clock_.Now() + std::chrono::seconds(1);
  Start(std::move(request));
  clock_.Advance(std::chrono::seconds(1));
  links_[0]->Break();
  EXPECT_THAT(links_[1]->Ids(), IsEmpty());
  ASSERT_EQ(sink_->ends().size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(sink_->ends()[0]));
  EXPECT_EQ(ReasonOf(sink_->ends()[0]), "DEADLINE");
}

}  // namespace
}  // namespace qanat::router
