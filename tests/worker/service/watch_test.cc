// A router's Watch over a real server and a real engine.
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/api/watch.h"
#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/fakes/watching_router.h"
#include "tests/worker/service/service_fixture.h"

namespace qanat::service {
namespace {

namespace cluster = qanat::cluster::v1;

class WatchTest : public ::testing::Test {
 protected:
  static FixtureOptions Options() {
    FixtureOptions options;
    options.vocabulary = fakes::ByteLevelVocabulary({});
    return options;
  }
  WatchTest() : worker_(runner_, Options()), stub_(cluster::WorkerService::NewStub(worker_.Connect())) {}

  // One Watch of `router`, from what it knows on.
  class Stream {
   public:
    Stream(cluster::WorkerService::Stub& stub, fakes::WatchingRouter& router) : router_(router) {
      cluster::WatchRequest request;
      request.set_router_id(1);
      request.set_known_epoch(router.epoch());
      request.set_known_seq(router.seq());
      context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      reader_ = stub.Watch(&context_, request);
    }
    // Reads until something is so. False when the stream ends first.
    bool ReadUntil(const std::function<bool()>& condition) {
      cluster::WatchResponse message;
      while (!condition()) {
        if (!reader_->Read(&message)) return false;
        const auto frame = api::FromProto(message);
        EXPECT_TRUE(frame.ok()) << frame.status();
        if (!frame.ok()) return false;
        EXPECT_EQ(router_.Take(*frame), "");
      }
      return true;
    }
    absl::Status Finish() {
      ReadUntil([] { return false; });
      return rpc::FromGrpc(reader_->Finish());
    }
    void Leave() {
      context_.TryCancel();
      reader_->Finish();
    }

   private:
    fakes::WatchingRouter& router_;
    grpc::ClientContext context_;
    std::unique_ptr<grpc::ClientReader<cluster::WatchResponse>> reader_;
  };

  // Runs one call on a Session of its own; tells the versions in its first and last event.
  struct Versions {
    uint64_t accepted = 0, end = 0;
  };
  Versions RunCall(const std::vector<TokenId>& prompt, int32_t max_tokens) {
    grpc::ClientContext context;
    const auto stream = stub_->Session(&context);
    cluster::SessionRequest request;
    cluster::StartCall& start = *request.mutable_start();
    start.set_call_id(1);
    start.set_cache_namespace(std::string(16, '\0'));
    *start.mutable_request()->mutable_token_ids()->mutable_ids() = {prompt.begin(), prompt.end()};
    start.mutable_request()->mutable_stopping()->set_max_tokens(max_tokens);
    EXPECT_TRUE(stream->Write(request));
    Versions versions;
    for (cluster::SessionResponse message; versions.end == 0 && stream->Read(&message);) {
      for (const cluster::CallEvent& event : message.events()) {
        if (event.has_accepted()) versions.accepted = event.accepted().load_version();
        if (event.has_end()) versions.end = event.end().load_version();
      }
    }
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
    return versions;
  }
  static std::vector<TokenId> Prompt(int length, char first) {
    std::vector<TokenId> prompt;
    for (int i = 0; i < length; ++i) prompt.push_back(fakes::ByteToken(static_cast<char>(first + i % 50)));
    return prompt;
  }
  // What the cache holds of this prompt once it is computed.
  static std::set<hash::BlockHash> HashesOf(const std::vector<TokenId>& prompt) {
    const auto hashes = hash::BlockHasher(hash::kPublicKey, "f00d", 16).HashPrompt(hash::Namespace{}, prompt);
    return {hashes.begin(), hashes.end()};
  }

  fakes::FakeModelRunner runner_{256, 16, 5 + 256};
  Worker worker_;
  std::unique_ptr<cluster::WorkerService::Stub> stub_;
  fakes::WatchingRouter router_;
};

TEST_F(WatchTest, TellsWhatTheCacheHoldsAndHowBusyTheWorkerIs) {
  Stream stream(*stub_, router_);
  ASSERT_TRUE(stream.ReadUntil([&] { return router_.load().has_value(); }));
  EXPECT_EQ(router_.epoch(), Worker::kEpoch);
  EXPECT_EQ(router_.load()->total_blocks, 256);
  EXPECT_EQ(router_.load()->load_version, 0u);
  const std::vector<TokenId> prompt = Prompt(100, 'a');
  const Versions versions = RunCall(prompt, 3);
  EXPECT_EQ(versions.accepted, 1u);
  EXPECT_EQ(versions.end, 2u);
  ASSERT_TRUE(stream.ReadUntil([&] { return router_.load()->load_version >= versions.end; }));
  EXPECT_EQ(router_.load()->running + router_.load()->waiting, 0);
  EXPECT_GE(router_.load()->step_id, 3u);
  ASSERT_TRUE(stream.ReadUntil([&] { return router_.resident() == HashesOf(prompt); }));
  ASSERT_TRUE(stream.ReadUntil([&] { return router_.load()->cached_blocks == 6; }));
  EXPECT_EQ(router_.load()->free_blocks, 250);
  stream.Leave();
}

TEST_F(WatchTest, ARouterThatKnowsAStateGoesOnFromThere) {
  const std::vector<TokenId> prompt = Prompt(64, 'a');
  {
    Stream stream(*stub_, router_);
    ASSERT_TRUE(stream.ReadUntil([&] { return router_.load().has_value(); }));
    stream.Leave();
  }
  RunCall(prompt, 2);
  Stream again(*stub_, router_);
  ASSERT_TRUE(again.ReadUntil([&] { return router_.resident() == HashesOf(prompt); }));
  EXPECT_EQ(router_.snapshots(), 1);
  again.Leave();
  fakes::WatchingRouter other;
  Stream from_nothing(*stub_, other);
  ASSERT_TRUE(from_nothing.ReadUntil([&] { return other.resident() == HashesOf(prompt); }));
  EXPECT_EQ(other.snapshots(), 1);
  const std::string metrics = worker_.Metrics();
  EXPECT_NE(metrics.find("\nqanat_worker_watch_snapshots_total 2\n"), std::string::npos);
  from_nothing.Leave();
}

TEST_F(WatchTest, DrainingIsToldAndTheStreamEndsWithTheWorker) {
  Stream stream(*stub_, router_);
  ASSERT_TRUE(stream.ReadUntil([&] { return router_.load().has_value(); }));
  EXPECT_FALSE(router_.load()->draining);
  EXPECT_NE(worker_.Metrics().find("\nqanat_worker_watch_subscribers 1\n"), std::string::npos);
  worker_.engine().Drain();
  ASSERT_TRUE(stream.ReadUntil([&] { return router_.load()->draining; }));
  worker_.worker_service().CloseStreams();
  const absl::Status status = stream.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), "DRAINING");
  fakes::WatchingRouter late;
  EXPECT_EQ(ReasonOf(Stream(*stub_, late).Finish()), "DRAINING");
  EXPECT_NE(worker_.Metrics().find("\nqanat_worker_watch_subscribers 0\n"), std::string::npos);
}

TEST_F(WatchTest, ARouterThatLeftIsForgotten) {
  {
    Stream stream(*stub_, router_);
    ASSERT_TRUE(stream.ReadUntil([&] { return router_.load().has_value(); }));
    stream.Leave();
  }
  // The next one's beats go on; the first is off the list by then.
  fakes::WatchingRouter other;
  Stream stream(*stub_, other);
  ASSERT_TRUE(stream.ReadUntil([&] {
    return other.loads() > 0 &&
           worker_.Metrics().find("\nqanat_worker_watch_subscribers 1\n") != std::string::npos;
  }));
  stream.Leave();
}

}  // namespace
}  // namespace qanat::service
