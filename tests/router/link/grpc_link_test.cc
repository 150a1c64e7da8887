// Calls over a link, and workers that come, die or are not what they should be.
#include "router/link/grpc_link.h"

#include <chrono>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/router/link/grpc_link_fixture.h"

namespace qanat::router {
namespace {

using fakes::FakeWorkerServer;
using testing::HasSubstr;

using GrpcLinkTest = GrpcLinkFixture;

TEST_F(GrpcLinkTest, TellsWhatTheWorkerIs) {
  OpenReadyLink();
  EXPECT_EQ(observer_.worker().info.model.id, "tiny");
  EXPECT_EQ(observer_.worker().info.epoch, 1u);
  EXPECT_EQ(observer_.worker().tokenizer->Encode("hi").size(), 2u);
}

TEST_F(GrpcLinkTest, CarriesACallAndItsAnswer) {
  OpenReadyLink();
  WorkerCall call = Prompt("ok");
  call.cache_namespace.bytes[15] = 7;
  call.deadline = clock_.Now() + std::chrono::seconds(60);
  ASSERT_TRUE(Start("a", call).has_value());
  ASSERT_TRUE(journal_.Await("a end"));
  EXPECT_THAT(journal_.entries(),
              testing::ElementsAre("ready", "a accepted 1", "a said o", "a said k", "a end OK v2"));
  const cluster::v1::StartCall start = worker_->NextStart();
  EXPECT_EQ(start.cache_namespace().size(), 16u);
  EXPECT_EQ(start.cache_namespace()[15], 7);
  EXPECT_GT(start.timeout().seconds(), 50);
  EXPECT_LE(start.timeout().seconds(), 60);
}

TEST_F(GrpcLinkTest, CarriesManyCallsOnOneSession) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kHold});
  std::vector<uint64_t> ids;
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Start("c" + std::to_string(i), Prompt("x")).has_value());
  for (int i = 0; i < 50; ++i) ids.push_back(worker_->NextStart().call_id());
  for (int i = 49; i >= 0; --i) worker_->SendEnd(ids[i], absl::OkStatus());
  for (int i = 49; i >= 0; --i) ASSERT_TRUE(journal_.Await("c" + std::to_string(i) + " end OK"));
}

TEST_F(GrpcLinkTest, AnErrorKeepsItsReasonAndHint) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kRefuse,
                 .refusal = WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL")});
  Start("a", Prompt("x"));
  EXPECT_TRUE(journal_.Await("a end RESOURCE_EXHAUSTED QUEUE_FULL"));
}

TEST_F(GrpcLinkTest, ARedirectIsNoEnd) {
  OpenReadyLink({.mode = FakeWorkerServer::Mode::kRefuse,
                 .refusal = WithReason(absl::ResourceExhaustedError("full"), "TOKENS_FULL"),
                 .redirect = cluster::v1::REDIRECT_FULL});
  Start("a", Prompt("x"));
  EXPECT_TRUE(journal_.Await("a full TOKENS_FULL"));
}

TEST_F(GrpcLinkTest, CancelReachesTheWorker) {
  const CallId id = StartHeldCall();
  link_->Cancel(id);
  ASSERT_TRUE(worker_->AwaitCancel(id));
  worker_->SendEnd(id, absl::CancelledError("as you wish"));
  EXPECT_TRUE(journal_.Await("a end CANCELLED"));
  link_->Cancel(id);  // it has ended: nothing
}

TEST_F(GrpcLinkTest, ABrokenSessionIsToldBeforeItsCallsEnd) {
  StartHeldCall();
  worker_->BreakSessions();
  ASSERT_TRUE(journal_.Await("down"));
  EXPECT_TRUE(journal_.Await("a end UNAVAILABLE WORKER_LOST"));
}

TEST_F(GrpcLinkTest, AWorkerThatDiesIsLeftAtOnceAndUsedAgainWhenItIsBack) {
  StartHeldCall();
  const auto before = std::chrono::steady_clock::now();
  worker_.reset();
  ASSERT_TRUE(journal_.Await("down"));
  EXPECT_TRUE(journal_.Await("a end UNAVAILABLE WORKER_LOST"));
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));

  StartWorker({.listen = address_});
  ASSERT_TRUE(journal_.Await("ready"));
  Start("b", Prompt("x"));
  EXPECT_TRUE(journal_.Await("b end OK"));
}

TEST_F(GrpcLinkTest, WaitsForAWorkerThatIsNotThereYet) {
  StartWorker();
  worker_.reset();
  OpenLink();
  ASSERT_TRUE(journal_.Await("down"));
  EXPECT_FALSE(Start("a", Prompt("x")).has_value());
  StartWorker({.listen = address_});
  EXPECT_TRUE(journal_.Await("ready"));
}

TEST_F(GrpcLinkTest, AsksForTheTokenizerOnceWhileItIsHeld) {
  OpenReadyLink();
  const ReadyWorker held = observer_.worker();
  Start("a", Prompt("x"));
  worker_->NextStart();  // the session is there: it can be broken
  worker_->BreakSessions();
  ASSERT_TRUE(journal_.Await("ready"));
  EXPECT_EQ(worker_->tokenizer_calls(), 1);
  EXPECT_EQ(observer_.worker().tokenizer, held.tokenizer);
}

TEST_F(GrpcLinkTest, ATokenizerOfAnotherSha256IsRefused) {
  StartWorker({.sha256 = std::string(32, 'x')});
  OpenLink();
  EXPECT_TRUE(journal_.Await("down its tokenizer does not have the sha256"));
}

TEST_F(GrpcLinkTest, AWorkerOfImpossibleFactsIsRefused) {
  StartWorker();
  cluster::v1::GetInfoResponse info = worker_->info();
  info.set_block_size(0);
  worker_->SetInfo(info);
  OpenLink();
  EXPECT_TRUE(journal_.Await("down block_size"));
}

TEST_F(GrpcLinkTest, AWorkerWhoseModelIsSmallerThanItsTokenizerIsRefused) {
  StartWorker();
  cluster::v1::GetInfoResponse info = worker_->info();
  info.set_vocab_size(100);
  worker_->SetInfo(info);
  OpenLink();
  EXPECT_TRUE(journal_.Await("down its tokenizer has 261 tokens"));
}

TEST_F(GrpcLinkTest, AWorkerThatTheObserverRefusesIsAskedAgain) {
  observer_.AnswerWith(absl::FailedPreconditionError("not one of us"));
  StartWorker();
  OpenLink();
  ASSERT_TRUE(journal_.Await("down not one of us"));
  observer_.AnswerWith(absl::OkStatus());
  // Some attempts may still have had the old answer.
  bool accepted = false;
  for (int i = 0; i < 100 && !accepted; ++i) {
    ASSERT_TRUE(journal_.Await("ready"));
    accepted = Start("a", Prompt("x")).has_value() && journal_.Await("a end OK");
  }
  EXPECT_TRUE(accepted);
}

TEST_F(GrpcLinkTest, CloseEndsCallsAndThenNothingMoreIsHeard) {
  const CallId id = StartHeldCall();
  link_->Close();
  const std::vector<std::string> heard = journal_.entries();
  EXPECT_THAT(heard, testing::Contains(HasSubstr("a end UNAVAILABLE")));
  EXPECT_FALSE(Start("b", Prompt("x")).has_value());
  link_->Cancel(id);
  link_->Close();
  EXPECT_EQ(journal_.entries(), heard);
}

TEST_F(GrpcLinkTest, CloseDoesNotWaitForAWorkerThatIsNotThere) {
  StartWorker();
  worker_.reset();
  OpenLink();
  const auto before = std::chrono::steady_clock::now();
  link_->Close();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
}

}  // namespace
}  // namespace qanat::router
