// The stream between a router and a worker, under more than it takes: overload, whole answers, random
// cancels.
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.h"
#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/worker/service/scripted_runner.h"
#include "tests/worker/service/service_fixture.h"
#include "tests/worker/service/session_fixture.h"

namespace qanat::service {
namespace {

// A24 for routers: eight times what the worker takes, and a step that does not end. Everybody is answered all
// the same, so nobody waits for a step.
TEST(SessionOverloadTest, WhoFindsNoPlaceIsRedirectedWhileAStepDoesNotEnd) {
  FixtureOptions options;
  options.max_seqs = 2;
  options.queue_requests = 14;
  ScriptedRunner runner(fakes::ByteToken('x'));
  Worker worker(runner, options);
  const auto stub = cluster::WorkerService::NewStub(worker.Connect());
  grpc::ClientContext context;
  const auto stream = stub->Session(&context);
  runner.Allow(0);
  ASSERT_TRUE(stream->Write(Start(1, 1, 3)));
  runner.WaitUntilHeld();  // it has left the queue, and runs for ever
  constexpr uint64_t kCalls = 8 * 16;
  for (uint64_t id = 2; id <= kCalls; ++id) ASSERT_TRUE(stream->Write(Start(id, id, 3)));
  HeardCalls heard;
  std::map<cluster::Redirect, int> redirects;
  size_t accepted = 0;
  while (accepted + heard.num_ended() < kCalls) {
    cluster::SessionResponse message;
    ASSERT_TRUE(stream->Read(&message));
    heard.Add(message);
    for (const cluster::CallEvent& event : message.events()) {
      accepted += event.has_accepted();
      if (event.has_end()) ++redirects[event.end().redirect()];
    }
  }
  EXPECT_EQ(accepted, 15u) << "one runs, fourteen wait";
  EXPECT_EQ(redirects[cluster::REDIRECT_FULL], 113);
  for (uint64_t id = 2; id <= kCalls; ++id) {
    if (!heard.ended(id)) continue;
    EXPECT_EQ(ReasonOf(heard.call(id).status), "QUEUE_FULL");
    EXPECT_TRUE(RetryAfterOf(heard.call(id).status).has_value());
  }
  EXPECT_THAT(
      worker.Metrics(),
      ::testing::HasSubstr("qanat_worker_refusals_total{model=\"tiny\",reason=\"redirect_full\"} 113\n"));
  worker.engine().Drain();
  ASSERT_TRUE(stream->Write(Start(900, 900, 3)));
  cluster::SessionResponse last;
  ASSERT_TRUE(stream->Read(&last));
  ASSERT_TRUE(last.events(0).has_end());
  EXPECT_EQ(last.events(0).end().redirect(), cluster::REDIRECT_DRAINING);
  runner.Allow(-1);
  for (cluster::SessionResponse message; heard.num_ended() < kCalls && stream->Read(&message);)
    heard.Add(message);
  EXPECT_EQ(heard.num_ended(), kCalls);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(SessionOverloadTest, PromptsThatWaitToBeEncodedAreBoundedInBytes) {
  FixtureOptions options;
  options.text_bytes = 3000;
  ScriptedRunner runner(fakes::ByteToken('x'));
  Worker worker(runner, options);
  Mutex mu;
  CondVar changed;
  bool open = false;
  const auto wait = [&] {
    MutexLock lock(mu);
    while (!open) changed.Wait(mu);
  };
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(worker.text_pool().TryRun(wait));
  const auto stub = cluster::WorkerService::NewStub(worker.Connect());
  grpc::ClientContext context;
  const auto stream = stub->Session(&context);
  for (uint64_t id = 1; id <= 4; ++id) {
    cluster::SessionRequest request = Start(id, id, 1);
    // The third is too much; the fourth still fits.
    request.mutable_start()->mutable_request()->set_text(std::string(id == 4 ? 20 : 1200, 'p'));
    ASSERT_TRUE(stream->Write(request));
  }
  HeardCalls heard;
  cluster::SessionResponse message;
  while (!heard.ended(3) && stream->Read(&message)) heard.Add(message);
  EXPECT_EQ(ReasonOf(heard.call(3).status), "QUEUE_FULL");
  EXPECT_EQ(heard.num_ended(), 1u);
  {
    MutexLock lock(mu);
    open = true;
  }
  changed.NotifyAll();
  while (heard.num_ended() < 4 && stream->Read(&message)) heard.Add(message);
  EXPECT_NE(ReasonOf(heard.call(1).status), "QUEUE_FULL");
  EXPECT_NE(ReasonOf(heard.call(2).status), "QUEUE_FULL");
  EXPECT_TRUE(heard.call(4).status.ok()) << heard.call(4).status;
  // What has been encoded counts no more.
  cluster::SessionRequest again = Start(5, 5, 1);
  again.mutable_start()->mutable_request()->set_text(std::string(200, 'p'));
  for (int i = 0; i < 20; ++i) {
    again.mutable_start()->set_call_id(again.start().call_id() + 1);
    ASSERT_TRUE(stream->Write(again));
    while (!heard.ended(again.start().call_id()) && stream->Read(&message)) heard.Add(message);
    EXPECT_TRUE(heard.call(again.start().call_id()).status.ok());
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// Calls whose answers come whole, all at about the same time.
class WholeAnswersTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kCalls = 6;

  void Open(Duration stall_limit) {
    FixtureOptions options = LongTokens();
    options.num_blocks = 2048;
    options.stall_limit = stall_limit;
    runner_.emplace(static_cast<TokenId>(options.vocabulary.tokens.size()) - 1);
    runner_->Allow(0);
    worker_.emplace(*runner_, std::move(options));
    stub_ = cluster::WorkerService::NewStub(worker_->ConnectNarrowly());
    stream_ = stub_->Session(&context_);
    for (uint64_t id = 1; id <= kCalls; ++id) {
      cluster::SessionRequest request = Start(id, id, 3500);
      request.mutable_start()->mutable_request()->mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
      ASSERT_TRUE(stream_->Write(request));
    }
  }
  void WaitUntilAllAreComputed() {
    const std::string all = "qanat_worker_requests_total{finish_reason=\"length\",model=\"tiny\"} 6\n";
    while (worker_->Metrics().find(all) == std::string::npos) std::this_thread::yield();
  }

  std::optional<ScriptedRunner> runner_;
  std::optional<Worker> worker_;
  std::unique_ptr<cluster::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<cluster::SessionRequest, cluster::SessionResponse>> stream_;
};

TEST_F(WholeAnswersTest, LeaveInMessagesBelowAMebibyte) {
  Open(std::chrono::seconds(30));
  runner_->Allow(-1);
  WaitUntilAllAreComputed();
  HeardCalls heard;
  for (cluster::SessionResponse message; heard.num_ended() < kCalls && stream_->Read(&message);) {
    EXPECT_LE(message.ByteSizeLong(), size_t{1} << 20);
    heard.Add(message);
  }
  for (uint64_t id = 1; id <= kCalls; ++id) {
    EXPECT_TRUE(heard.call(id).status.ok());
    EXPECT_EQ(heard.call(id).text().size(), 3500u * 256);
  }
  EXPECT_TRUE(worker_->WaitUntilIdle());
  stream_->WritesDone();
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(WholeAnswersTest, OfARouterThatTakesNoneAreGivenUp) {
  Open(std::chrono::milliseconds(200));
  // Every call is accepted before one ends; from then on nobody reads.
  HeardCalls heard;
  for (cluster::SessionResponse message; !heard.accepted(kCalls) && stream_->Read(&message);) {
    heard.Add(message);
  }
  runner_->Allow(-1);
  EXPECT_TRUE(worker_->WaitUntilIdle());
  for (cluster::SessionResponse message; stream_->Read(&message);) {
  }
  EXPECT_EQ(stream_->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

// A19 for routers: calls cut at random, some with the stream.
TEST(SessionStormTest, RandomCancelsLeaveNothingBehind) {
  FixtureOptions options;
  options.num_blocks = 64;
  fakes::FakeModelRunner runner(options.num_blocks, 16, 250);
  Worker worker(runner, options);
  const auto stub = cluster::WorkerService::NewStub(worker.Connect());
  std::mt19937 random(11);
  for (int round = 0; round < 10; ++round) {
    grpc::ClientContext context;
    const auto stream = stub->Session(&context);
    HeardCalls heard;
    std::thread reader([&] {
      for (cluster::SessionResponse message; stream->Read(&message);) heard.Add(message);
    });
    for (uint64_t id = 1; id <= 50; ++id) {
      stream->Write(Start(id, random(), static_cast<int32_t>(1 + random() % 100),
                          std::vector<TokenId>(1 + random() % 40, 9)));
      if (random() % 2 == 0) stream->Write(Cancel(1 + random() % id));
    }
    if (round % 2 == 0) {
      context.TryCancel();
    } else {
      stream->WritesDone();
    }
    reader.join();
    stream->Finish();
    if (round % 2 == 1) {
      EXPECT_EQ(heard.num_ended(), 50u);
    }
    EXPECT_TRUE(worker.WaitUntilIdle());
  }
}

}  // namespace
}  // namespace qanat::service
