// Many callers, rude callers, slow callers.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/worker/service/scripted_runner.h"
#include "tests/worker/service/service_fixture.h"

namespace qanat::service {
namespace {

using ::testing::HasSubstr;

v1::GenerateRequest Request(uint64_t seed, int32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_text("prompt " + std::to_string(seed % 7));
  request.mutable_sampling()->set_seed(seed);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_output()->set_token_ids(true);
  return request;
}

// The series of a metric in a scrape, summed.
double SumOf(const std::string& scrape, const std::string& name) {
  double sum = 0;
  for (size_t at = scrape.find("\n" + name + "{"); at != std::string::npos;
       at = scrape.find("\n" + name + "{", at + 1)) {
    const size_t value = scrape.find("} ", at) + 2;
    sum += std::stod(scrape.substr(value));
  }
  return sum;
}

// A19, A21.
TEST(OverloadTest, FiveHundredStreamsCutAtRandomPointsLeaveNothingBehind) {
  constexpr int kThreads = 4;
  constexpr int kStreams = 125;  // each thread's
  FixtureOptions options;
  options.num_blocks = 64;  // small: preemption and eviction under way
  fakes::FakeModelRunner runner(options.num_blocks, 16, 250);
  Worker worker(runner, options);
  const auto stub = v1::InferenceService::NewStub(worker.Connect());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < kStreams; ++i) {
        grpc::ClientContext context;
        const auto reader = stub->Generate(&context, Request(random(), 100));
        v1::GenerateResponse message;
        for (unsigned reads = random() % 6; reads > 0 && reader->Read(&message); --reads) {
        }
        context.TryCancel();
        reader->Finish();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(worker.WaitUntilIdle());

  const std::string scrape = worker.Metrics();
  EXPECT_EQ(SumOf(scrape, "qanat_worker_requests_running"), 0);
  EXPECT_EQ(SumOf(scrape, "qanat_worker_requests_waiting"), 0);
  EXPECT_EQ(SumOf(scrape, "qanat_worker_kv_usage_ratio"), 0);
  // Who was cancelled before it was submitted was never accepted; of the others each ended once.
  EXPECT_EQ(SumOf(scrape, "qanat_worker_requests_total"),
            SumOf(scrape, "qanat_worker_request_prompt_tokens_count"));

  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, Request(1, 10));
  int tokens = 0;
  for (v1::GenerateResponse message; reader->Read(&message);) tokens += message.token_ids_size();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(tokens, 10);
}

TEST(OverloadTest, StreamsGetTheAnswerTheyWouldGetAlone) {
  FixtureOptions options;
  options.num_blocks = 40;
  fakes::FakeModelRunner runner(options.num_blocks, 16, 250);
  Worker worker(runner, options);
  const auto stub = v1::InferenceService::NewStub(worker.Connect());
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    threads.emplace_back([&, seed] {
      const v1::GenerateRequest request = Request(seed, 60);
      engine::Request alone;
      alone.prompt = worker.tokenizer().Encode(request.text());
      alone.seed = seed;
      alone.max_tokens = 60;
      grpc::ClientContext context;
      const auto reader = stub->Generate(&context, request);
      Heard heard;
      for (v1::GenerateResponse message; reader->Read(&message);) heard.messages.push_back(message);
      heard.status = rpc::FromGrpc(reader->Finish());
      ExpectLaws(heard);
      const std::vector<TokenId> expected =
          fakes::FakeModelRunner::Answer(alone, options.context_length, 250);
      EXPECT_EQ(heard.ids(), expected);
      EXPECT_EQ(heard.text(), worker.tokenizer().Decode(expected));
      right += heard.ids() == expected ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 12);
}

TEST(OverloadTest, AFullQueueRefusesWithARetryHint) {
  FixtureOptions options;
  options.max_seqs = 1;
  options.queue_requests = 2;
  ScriptedRunner runner(fakes::ByteToken('x'));
  Worker worker(runner, options);
  const auto stub = v1::InferenceService::NewStub(worker.Connect());
  runner.Allow(0);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  const auto start = [&](uint64_t seed) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(stub->Generate(contexts.back().get(), Request(seed, 3)));
  };
  start(1);
  runner.WaitUntilHeld();  // it runs, so it has left the queue
  start(2);
  start(3);
  while (worker.engine().Snapshot().waiting < 2) std::this_thread::yield();
  grpc::ClientContext context;
  const auto refused = stub->Generate(&context, Request(4, 3));
  const absl::Status status = rpc::FromGrpc(refused->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), "QUEUE_FULL");
  EXPECT_TRUE(RetryAfterOf(status).has_value());
  EXPECT_THAT(worker.Metrics(),
              HasSubstr("qanat_worker_refusals_total{model=\"tiny\",reason=\"queue_full\"} 1\n"));
  runner.Allow(-1);
  for (const auto& reader : readers) {
    int tokens = 0;
    for (v1::GenerateResponse message; reader->Read(&message);) tokens += message.token_ids_size();
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(tokens, 3);
  }
}

// A25.
TEST(OverloadTest, ASlowReaderGetsEverythingInTheEndAndHoldsUpNobody) {
  FixtureOptions options = LongTokens();
  const TokenId longest = static_cast<TokenId>(options.vocabulary.tokens.size()) - 1;
  ScriptedRunner runner(longest);
  Worker worker(runner, std::move(options));
  const auto slow_stub = v1::InferenceService::NewStub(worker.Connect());
  grpc::ClientContext slow_context;
  const auto slow = slow_stub->Generate(&slow_context, Request(1, 4000));
  v1::GenerateResponse message;
  ASSERT_TRUE(slow->Read(&message));
  size_t bytes = message.text().size();

  const auto fast_stub = v1::InferenceService::NewStub(worker.Connect());
  grpc::ClientContext fast_context;
  const auto fast = fast_stub->Generate(&fast_context, Request(2, 50));
  int tokens = 0;
  for (v1::GenerateResponse answer; fast->Read(&answer);) tokens += answer.token_ids_size();
  EXPECT_TRUE(fast->Finish().ok());
  EXPECT_EQ(tokens, 50);

  size_t largest = 0;
  while (slow->Read(&message)) {
    bytes += message.text().size();
    largest = std::max(largest, message.text().size());
  }
  EXPECT_TRUE(slow->Finish().ok());
  EXPECT_EQ(bytes, 4000u * 256);
  EXPECT_LE(largest, 80u << 10) << "a message holds no more than waits at once";
}

v1::GenerateRequest Whole(uint64_t seed, int32_t max_tokens) {
  v1::GenerateRequest request = Request(seed, max_tokens);
  request.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
  return request;
}

// Nothing happens on these streams any more: the answer is complete, and in its last write, or behind one.
TEST(OverloadTest, AReaderThatNeverTakesACompleteAnswerIsCancelled) {
  for (const int32_t max_tokens : {3000, 8000}) {
    FixtureOptions options = LongTokens();
    options.stall_limit = std::chrono::milliseconds(100);
    ScriptedRunner runner(static_cast<TokenId>(options.vocabulary.tokens.size()) - 1);
    Worker worker(runner, std::move(options));
    const auto stub = v1::InferenceService::NewStub(worker.ConnectNarrowly());
    grpc::ClientContext context;
    const auto reader = stub->Generate(&context, Whole(1, max_tokens));
    while (SumOf(worker.Metrics(), "qanat_worker_requests_total") < 1) std::this_thread::yield();
    EXPECT_TRUE(worker.WaitUntilIdle());
    for (v1::GenerateResponse message; reader->Read(&message);) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST(OverloadTest, AWorkerThatLeavesWaitsForWhatIsStillBeingWritten) {
  FixtureOptions options = LongTokens();
  ScriptedRunner runner(static_cast<TokenId>(options.vocabulary.tokens.size()) - 1);
  Worker worker(runner, std::move(options));
  const auto stub = v1::InferenceService::NewStub(worker.ConnectNarrowly());
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, Whole(1, 3000));
  while (SumOf(worker.Metrics(), "qanat_worker_requests_total") < 1) std::this_thread::yield();
  const RealClock clock;
  EXPECT_FALSE(worker.live().WaitUntilEmpty(std::chrono::milliseconds(20), clock)) << "nobody has read it";
  size_t bytes = 0;
  for (v1::GenerateResponse message; reader->Read(&message);) bytes += message.text().size();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(bytes, 3000u * 256);
  EXPECT_TRUE(worker.WaitUntilIdle());
}

TEST(OverloadTest, TheChoicesOfAWholeAnswerShareTheMebibyte) {
  FixtureOptions options = LongTokens();
  options.num_blocks = 4096;
  ScriptedRunner runner(static_cast<TokenId>(options.vocabulary.tokens.size()) - 1);
  Worker worker(runner, std::move(options));
  const auto stub = v1::InferenceService::NewStub(worker.Connect());
  v1::GenerateRequest request = Whole(1, 2000);
  request.mutable_sampling()->set_n(4);
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);
  Heard heard;
  for (v1::GenerateResponse message; reader->Read(&message);) {
    EXPECT_LE(message.ByteSizeLong(), (size_t{1} << 20) / 4);
    heard.messages.push_back(message);
  }
  heard.status = rpc::FromGrpc(reader->Finish());
  ExpectLaws(heard);
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  for (int32_t choice = 0; choice < 4; ++choice) EXPECT_EQ(heard.text(choice).size(), 2000u * 256);
}

TEST(OverloadTest, AReaderThatStallsIsCancelled) {
  FixtureOptions options = LongTokens();
  options.stall_limit = std::chrono::nanoseconds(1);  // a write that is not done at once is a stall
  options.context_length = 100000;
  options.num_blocks = 8192;
  const TokenId longest = static_cast<TokenId>(options.vocabulary.tokens.size()) - 1;
  ScriptedRunner runner(longest);
  Worker worker(runner, std::move(options));
  const auto stub = v1::InferenceService::NewStub(worker.Connect());
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, Request(1, 90000));
  v1::GenerateResponse first;
  reader->Read(&first);  // the call has begun; from now on nobody reads
  EXPECT_TRUE(worker.WaitUntilIdle());
  EXPECT_THAT(worker.Metrics(),
              HasSubstr("qanat_worker_requests_total{finish_reason=\"cancelled\",model=\"tiny\"} 1\n"));
  for (v1::GenerateResponse message; reader->Read(&message);) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace qanat::service
