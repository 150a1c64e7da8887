// A router's Session, GetInfo and GetTokenizer over a real server and a real engine.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/api/call_end.h"
#include "common/api/tokenizer_proto.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/hash/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/worker/service/scripted_runner.h"
#include "tests/worker/service/service_fixture.h"

namespace qanat::service {
namespace {

namespace cluster = qanat::cluster::v1;

// What a router heard of its calls, and whether it came in order.
class HeardCalls {
 public:
  void Add(const cluster::SessionResponse& message) {
    for (const cluster::CallEvent& event : message.events()) {
      const uint64_t id = event.call_id();
      EXPECT_EQ(ends_.count(id), 0u) << "an event after the end of call " << id;
      if (event.has_accepted()) {
        EXPECT_TRUE(calls_[id].messages.empty()) << "accepted after a response";
        EXPECT_TRUE(accepted_.insert(id).second) << "accepted twice";
      }
      if (event.has_response()) {
        EXPECT_EQ(accepted_.count(id), 1u) << "a response before accepted";
        calls_[id].messages.push_back(event.response());
      }
      if (event.has_end()) {
        calls_[id].status = api::FromCallEnd(event.end());
        ends_.insert(id);
        ExpectLaws(calls_[id]);
      }
    }
  }
  bool ended(uint64_t id) const { return ends_.count(id) > 0; }
  bool accepted(uint64_t id) const { return accepted_.count(id) > 0; }
  const Heard& call(uint64_t id) { return calls_[id]; }
  size_t num_ended() const { return ends_.size(); }

 private:
  std::map<uint64_t, Heard> calls_;
  std::set<uint64_t> accepted_, ends_;
};

cluster::SessionRequest Start(uint64_t id, uint64_t seed, int32_t max_tokens,
                              std::vector<TokenId> prompt = {7, 8, 9}) {
  cluster::SessionRequest request;
  cluster::StartCall& start = *request.mutable_start();
  start.set_call_id(id);
  start.set_cache_namespace(std::string(16, 'n'));
  *start.mutable_request()->mutable_token_ids()->mutable_ids() = {prompt.begin(), prompt.end()};
  start.mutable_request()->mutable_sampling()->set_seed(seed);
  start.mutable_request()->mutable_stopping()->set_max_tokens(max_tokens);
  start.mutable_request()->mutable_stopping()->set_ignore_eos(true);
  start.mutable_request()->mutable_output()->set_token_ids(true);
  return request;
}

cluster::SessionRequest Cancel(uint64_t id) {
  cluster::SessionRequest request;
  request.mutable_cancel()->set_call_id(id);
  return request;
}

class SessionTest : public ::testing::Test {
 protected:
  // Long enough that no call ends by itself before it is cancelled.
  static constexpr int32_t kEndless = 90000;

  static FixtureOptions Options() {
    FixtureOptions options;
    options.context_length = 100000;
    options.num_blocks = 65536;
    options.max_seqs = 32;
    return options;
  }

  SessionTest() : worker_(runner_, Options()), stub_(cluster::WorkerService::NewStub(worker_.Connect())) {}

  // Reads until `id` has ended, or the stream.
  template <typename Stream>
  static bool ReadUntilEnd(Stream& stream, uint64_t id, HeardCalls& heard) {
    for (cluster::SessionResponse message; !heard.ended(id) && stream.Read(&message);) heard.Add(message);
    return heard.ended(id);
  }

  ScriptedRunner runner_{fakes::ByteToken('x')};
  Worker worker_;
  std::unique_ptr<cluster::WorkerService::Stub> stub_;
};

TEST_F(SessionTest, CarriesManyCallsOnOneStream) {
  grpc::ClientContext context;
  const auto stream = stub_->Session(&context);
  for (uint64_t id = 1; id <= 20; ++id) ASSERT_TRUE(stream->Write(Start(id, id, static_cast<int32_t>(id))));
  HeardCalls heard;
  for (uint64_t id = 1; id <= 20; ++id) {
    ASSERT_TRUE(ReadUntilEnd(*stream, id, heard));
    EXPECT_TRUE(heard.accepted(id));
    EXPECT_TRUE(heard.call(id).status.ok()) << heard.call(id).status;
    EXPECT_EQ(heard.call(id).ids(), std::vector<TokenId>(id, fakes::ByteToken('x')));
    EXPECT_EQ(heard.call(id).last().seed(), id);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(SessionTest, GathersTheNewsOfManyCallsInOneMessage) {
  runner_.Allow(0);
  grpc::ClientContext context;
  const auto stream = stub_->Session(&context);
  for (uint64_t id = 1; id <= 10; ++id) ASSERT_TRUE(stream->Write(Start(id, id, 40)));
  while (worker_.live().size() < 10) std::this_thread::yield();
  runner_.Allow(-1);
  HeardCalls heard;
  size_t most_calls = 0;  // in one message
  for (cluster::SessionResponse message; heard.num_ended() < 10 && stream->Read(&message);) {
    std::set<uint64_t> calls;
    for (const cluster::CallEvent& event : message.events()) calls.insert(event.call_id());
    most_calls = std::max(most_calls, calls.size());
    heard.Add(message);
  }
  EXPECT_EQ(heard.num_ended(), 10u);
  EXPECT_GT(most_calls, 1u);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(SessionTest, CancelEndsOneCallAndLeavesTheOthers) {
  runner_.Allow(2);
  grpc::ClientContext context;
  const auto stream = stub_->Session(&context);
  ASSERT_TRUE(stream->Write(Start(1, 1, kEndless)));
  ASSERT_TRUE(stream->Write(Start(2, 2, 5)));
  ASSERT_TRUE(stream->Write(Cancel(1)));
  ASSERT_TRUE(stream->Write(Cancel(77)));  // unknown: nothing happens
  // The third call is accepted after the cancel was read.
  ASSERT_TRUE(stream->Write(Start(3, 3, 1)));
  HeardCalls heard;
  for (cluster::SessionResponse message; !heard.accepted(3) && stream->Read(&message);) heard.Add(message);
  runner_.Allow(-1);
  ASSERT_TRUE(ReadUntilEnd(*stream, 1, heard));
  ASSERT_TRUE(ReadUntilEnd(*stream, 2, heard));
  ASSERT_TRUE(ReadUntilEnd(*stream, 3, heard));
  EXPECT_EQ(heard.call(1).status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(heard.call(1).last().finish().reason(), v1::FINISH_REASON_CANCELLED);
  EXPECT_TRUE(heard.call(2).status.ok());
  EXPECT_TRUE(heard.call(3).status.ok());
  EXPECT_TRUE(worker_.WaitUntilIdle());
}

cluster::SessionRequest Pause(uint64_t id, bool paused) {
  cluster::SessionRequest request;
  request.mutable_pause()->set_call_id(id);
  request.mutable_pause()->set_paused(paused);
  return request;
}

TEST_F(SessionTest, ACallThatItsRouterPausesComputesNothingUntilItGoesOn) {
  runner_.Allow(1);
  grpc::ClientContext context;
  const auto stream = stub_->Session(&context);
  ASSERT_TRUE(stream->Write(Start(1, 1, 500)));
  HeardCalls heard;
  for (cluster::SessionResponse message; !heard.accepted(1) && stream->Read(&message);) heard.Add(message);
  ASSERT_TRUE(stream->Write(Pause(1, true)));
  ASSERT_TRUE(stream->Write(Pause(77, true)));  // unknown: nothing happens
  // Accepted, so the pause was read.
  ASSERT_TRUE(stream->Write(Start(2, 2, 3)));
  for (cluster::SessionResponse message; !heard.accepted(2) && stream->Read(&message);) heard.Add(message);
  runner_.Allow(-1);
  ASSERT_TRUE(ReadUntilEnd(*stream, 2, heard));
  EXPECT_FALSE(heard.ended(1));
  const engine::EngineSnapshot snapshot = worker_.engine().Snapshot();
  EXPECT_EQ(snapshot.paused, 1);
  EXPECT_EQ(snapshot.running, 0);
  EXPECT_THAT(worker_.Metrics(), ::testing::HasSubstr("qanat_worker_streams_stalled{model=\"tiny\"} 1\n"));
  ASSERT_TRUE(stream->Write(Pause(1, false)));
  ASSERT_TRUE(ReadUntilEnd(*stream, 1, heard));
  EXPECT_EQ(heard.call(1).ids(), std::vector<TokenId>(500, fakes::ByteToken('x')));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(SessionTest, ASessionThatBreaksCancelsAllItsCalls) {
  for (const bool politely : {true, false}) {
    runner_.Allow(1);
    grpc::ClientContext context;
    const auto stream = stub_->Session(&context);
    for (uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(stream->Write(Start(id, id, kEndless)));
    HeardCalls heard;
    for (cluster::SessionResponse message; !heard.accepted(8) && stream->Read(&message);) heard.Add(message);
    if (politely) {
      stream->WritesDone();
      runner_.Allow(-1);
      for (cluster::SessionResponse message; stream->Read(&message);) heard.Add(message);
      EXPECT_TRUE(stream->Finish().ok());
      EXPECT_EQ(heard.num_ended(), 8u);
      for (uint64_t id = 1; id <= 8; ++id) EXPECT_FALSE(heard.call(id).status.ok());
    } else {
      context.TryCancel();
      runner_.Allow(-1);
      EXPECT_FALSE(stream->Finish().ok());
    }
    EXPECT_TRUE(worker_.WaitUntilIdle());
  }
}

TEST_F(SessionTest, ACallsRefusalIsItsOwnEnd) {
  grpc::ClientContext context;
  const auto stream = stub_->Session(&context);
  cluster::SessionRequest bad_namespace = Start(1, 1, 1);
  bad_namespace.mutable_start()->set_cache_namespace("short");
  cluster::SessionRequest bad_field = Start(2, 2, 1);
  bad_field.mutable_start()->mutable_request()->mutable_sampling()->set_top_p(0);
  cluster::SessionRequest late = Start(3, 3, 1);
  late.mutable_start()->mutable_timeout()->set_seconds(-1);
  cluster::SessionRequest text = Start(4, 4, 1);
  text.mutable_start()->mutable_request()->set_text("plain text works as well");
  cluster::SessionRequest late_text = text;
  late_text.mutable_start()->set_call_id(5);
  late_text.mutable_start()->mutable_request()->set_text("");  // would be refused for that if it were encoded
  late_text.mutable_start()->mutable_timeout()->set_seconds(-1);
  cluster::SessionRequest patient = Start(6, 6, 1);
  patient.mutable_start()->mutable_timeout()->set_seconds(int64_t{1} << 60);
  for (const auto& request : {bad_namespace, bad_field, late, text, late_text, patient}) {
    ASSERT_TRUE(stream->Write(request));
  }
  HeardCalls heard;
  for (uint64_t id = 1; id <= 6; ++id) ASSERT_TRUE(ReadUntilEnd(*stream, id, heard));
  EXPECT_EQ(FieldOf(heard.call(1).status), "cache_namespace");
  EXPECT_EQ(FieldOf(heard.call(2).status), "sampling.top_p");
  EXPECT_EQ(heard.call(3).status.code(), absl::StatusCode::kDeadlineExceeded) << "and no worker could help";
  EXPECT_TRUE(heard.call(4).status.ok());
  EXPECT_EQ(heard.call(5).status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(heard.call(6).status.ok()) << "more than any clock can count is no deadline";
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_FALSE(heard.accepted(id));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(SessionTest, ARouterThatReusesALiveIdLosesTheStream) {
  for (const uint64_t second : {uint64_t{1}, uint64_t{0}}) {
    runner_.Allow(0);
    grpc::ClientContext context;
    const auto stream = stub_->Session(&context);
    ASSERT_TRUE(stream->Write(Start(1, 1, kEndless)));
    cluster::SessionResponse accepted;
    ASSERT_TRUE(stream->Read(&accepted));
    ASSERT_TRUE(stream->Write(Start(second, 2, kEndless)));
    runner_.Allow(-1);
    for (cluster::SessionResponse message; stream->Read(&message);) {
    }
    EXPECT_EQ(FieldOf(rpc::FromGrpc(stream->Finish())), "call_id");
    EXPECT_TRUE(worker_.WaitUntilIdle());
  }
}

TEST_F(SessionTest, ClosingSessionsEndsThemAndRefusesNewOnes) {
  grpc::ClientContext context;
  const auto stream = stub_->Session(&context);
  ASSERT_TRUE(stream->Write(Start(1, 1, 3)));
  HeardCalls heard;
  ASSERT_TRUE(ReadUntilEnd(*stream, 1, heard));
  worker_.worker_service().CloseStreams();
  cluster::SessionResponse message;
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_EQ(ReasonOf(rpc::FromGrpc(stream->Finish())), "DRAINING");
  grpc::ClientContext late_context;
  EXPECT_EQ(ReasonOf(rpc::FromGrpc(stub_->Session(&late_context)->Finish())), "DRAINING");
}

TEST_F(SessionTest, AWorkerThatLeavesSaysSoToEveryCallOfAStreamThatItCloses) {
  runner_.Allow(0);
  grpc::ClientContext context;
  const auto stream = stub_->Session(&context);
  ASSERT_TRUE(stream->Write(Start(1, 1, kEndless)));
  HeardCalls heard;
  for (cluster::SessionResponse message; !heard.accepted(1) && stream->Read(&message);) heard.Add(message);
  runner_.WaitUntilHeld();
  worker_.worker_service().CloseStreams();
  ASSERT_TRUE(stream->Write(Start(2, 2, 3)));
  cluster::SessionResponse message;
  ASSERT_TRUE(stream->Read(&message));
  ASSERT_TRUE(message.events(0).has_end());
  EXPECT_EQ(message.events(0).call_id(), 2u);
  EXPECT_EQ(message.events(0).end().redirect(), cluster::REDIRECT_DRAINING);
  runner_.Allow(-1);
  ASSERT_TRUE(ReadUntilEnd(*stream, 1, heard));
  EXPECT_EQ(ReasonOf(heard.call(1).status), "DRAINING");
  EXPECT_EQ(heard.call(1).last().finish().reason(), v1::FINISH_REASON_ERROR) << "it may go on elsewhere";
  EXPECT_EQ(ReasonOf(rpc::FromGrpc(stream->Finish())), "DRAINING");
}

TEST_F(SessionTest, TellsItsFactsAndHandsOutItsTokenizer) {
  cluster::GetInfoResponse info;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->GetInfo(&context, {}, &info).ok());
  }
  EXPECT_EQ(info.model_id(), "tiny");
  EXPECT_EQ(info.epoch(), 99u);
  EXPECT_EQ(info.hash_check(), api::HashCheck(hash::kPublicKey, "f00d", 16));
  EXPECT_EQ(info.total_blocks(), 65536);

  grpc::ClientContext context;
  const auto reader = stub_->GetTokenizer(&context, {});
  std::string bytes, digest;
  for (cluster::GetTokenizerResponse part; reader->Read(&part);) {
    EXPECT_TRUE(digest.empty());
    bytes += part.chunk();
    digest = part.sha256();
  }
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(hash::Sha256(bytes), digest);
  cluster::Tokenizer proto;
  ASSERT_TRUE(proto.ParseFromString(bytes));
  const auto tokenizer = text::Tokenizer::Create(*api::FromProto(proto));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Fingerprint(), worker_.tokenizer().Fingerprint());
}

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
