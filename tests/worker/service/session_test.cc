// A router's Session, GetInfo and GetTokenizer over a real server and a real engine.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/api/tokenizer_proto.h"
#include "common/base/error.h"
#include "common/hash/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/worker/service/scripted_runner.h"
#include "tests/worker/service/service_fixture.h"
#include "tests/worker/service/session_fixture.h"

namespace qanat::service {
namespace {

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
  for (int started = 0; started < 10; std::this_thread::yield()) {
    started = 0;
    worker_.live().ForEach([&](Generation&) { ++started; });
  }
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
  EXPECT_EQ((*tokenizer)->vocabulary().tokens, worker_.tokenizer().vocabulary().tokens);
}

}  // namespace
}  // namespace qanat::service
