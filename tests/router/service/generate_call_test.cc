#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/router/service/service_fixture.h"

namespace qanat::router {
namespace {

using testing::HasSubstr;

class GenerateCallTest : public ServiceTest {};

TEST_F(GenerateCallTest, StreamsTheAnswerOfAWorker) {
  AddWorker();
  const Answer answer = Generate(Ask("hello"));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.text(), "hello");
  const v1::GenerateResponse& last = answer.responses.back();
  EXPECT_EQ(last.finish().reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(last.usage().completion_tokens(), 5);
  for (const v1::GenerateResponse& response : answer.responses) EXPECT_EQ(response.token_ids_size(), 0);
}

TEST_F(GenerateCallTest, SendsTheWorkerIdsASeedAndALimit) {
  Worker& worker = AddWorker();
  ASSERT_TRUE(Generate(Ask("hello")).status.ok());
  const cluster::v1::StartCall start = worker.NextStart();
  EXPECT_EQ(start.request().token_ids().ids_size(), 5);
  EXPECT_EQ(start.request().model(), "tiny");
  EXPECT_GT(start.request().sampling().seed(), 1000u);
  EXPECT_EQ(start.request().stopping().max_tokens(), 256 - 5);
  EXPECT_GT(start.timeout().seconds(), 5);
}

TEST_F(GenerateCallTest, ASeedThatIsSetTravels) {
  Worker& worker = AddWorker();
  v1::GenerateRequest request = Ask("hello");
  request.mutable_sampling()->set_seed(0);
  const Answer answer = Generate(request);
  EXPECT_EQ(worker.NextStart().request().sampling().seed(), 0u);
  EXPECT_EQ(answer.responses.back().seed(), 0u);
  EXPECT_TRUE(answer.responses.back().has_seed());
}

TEST_F(GenerateCallTest, EachSaltHasANamespaceOfItsOwn) {
  Worker& worker = AddWorker();
  const auto namespace_of = [&](const std::string& salt) {
    v1::GenerateRequest request = Ask("x");
    request.set_cache_salt(salt);
    EXPECT_TRUE(Generate(request).status.ok());
    return worker.NextStart().cache_namespace();
  };
  EXPECT_EQ(namespace_of("").size(), 16u);
  EXPECT_EQ(namespace_of("a"), namespace_of("a"));
  EXPECT_NE(namespace_of("a"), namespace_of("b"));
  EXPECT_NE(namespace_of("a"), namespace_of(""));
}

TEST_F(GenerateCallTest, CallsOfOneRequestIdKeepApart) {
  AddWorker();
  std::vector<std::string> texts(2);
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([this, i, &texts] {
      v1::GenerateRequest request = Ask(std::string(50, static_cast<char>('a' + i)));
      request.set_request_id("the same");
      const Answer answer = Generate(request);
      EXPECT_EQ(answer.responses.front().request_id(), "the same");
      texts[i] = answer.text();
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(texts[0], std::string(50, 'a'));
  EXPECT_EQ(texts[1], std::string(50, 'b'));
}

TEST_F(GenerateCallTest, RefusesAFieldOutOfRangeByName) {
  AddWorker();
  v1::GenerateRequest request = Ask("x");
  request.mutable_sampling()->set_top_p(1.5f);
  const Answer answer = Generate(request);
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status)) << answer.status;
  EXPECT_EQ(FieldOf(answer.status), "sampling.top_p");
  EXPECT_TRUE(answer.responses.empty());
}

TEST_F(GenerateCallTest, RefusesAFieldOfTheFutureByNumber) {
  AddWorker();
  v1::GenerateRequest request = Ask("x");
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(999, 1);
  const Answer answer = Generate(request);
  EXPECT_TRUE(absl::IsUnimplemented(answer.status)) << answer.status;
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("999"));
}

TEST_F(GenerateCallTest, RefusesAPromptThatEncodesToTooMuch) {
  AddWorker();
  const Answer answer = Generate(Ask(std::string(256, 'x')));
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status)) << answer.status;
  EXPECT_EQ(ReasonOf(answer.status), "PROMPT_TOO_LONG");
}

TEST_F(GenerateCallTest, RefusesAChatWhereTheModelHasNoTemplate) {
  AddWorker();
  v1::GenerateRequest request;
  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("hi");
  EXPECT_TRUE(absl::IsFailedPrecondition(Generate(request).status));
}

TEST_F(GenerateCallTest, AnUnknownModelIsNotFound) {
  AddWorker();
  v1::GenerateRequest request = Ask("x");
  request.set_model("huge");
  EXPECT_TRUE(absl::IsNotFound(Generate(request).status));
}

TEST_F(GenerateCallTest, WithoutAWorkerItIsUnavailableAtOnce) {
  const auto before = std::chrono::steady_clock::now();
  const Answer answer = Generate(Ask("x"));
  EXPECT_TRUE(absl::IsUnavailable(answer.status)) << answer.status;
  EXPECT_EQ(ReasonOf(answer.status), "NO_WORKER");
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
}

TEST_F(GenerateCallTest, ACallerWhoDoesNotReadPausesHisWorkerUntilHeDoes) {
  Worker& worker = AddWorker({.mode = Worker::Mode::kHold});
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Ask("x"));
  const uint64_t id = worker.NextStart().call_id();
  // gRPC itself buffers some of it, how much is its own affair.
  int sent = 0;
  for (; sent < 2000 && !worker.IsPaused(id); ++sent) {
    v1::GenerateResponse response;
    response.set_first_token(sent);
    response.add_token_ids(1);
    response.set_text(std::string(32 << 10, 'a'));
    worker.Send(id, response);
  }
  ASSERT_TRUE(worker.IsPaused(id)) << "after " << sent << " messages";
  v1::GenerateResponse response;
  size_t bytes = 0;
  const size_t all = static_cast<size_t>(sent) * (32 << 10);
  while (bytes < all && reader->Read(&response)) bytes += response.text().size();
  EXPECT_EQ(bytes, all);
  EXPECT_TRUE(Await([&] { return !worker.IsPaused(id); }));
  worker.SendEnd(id, absl::OkStatus());
  EXPECT_TRUE(Read(*reader).status.ok());
}

TEST_F(GenerateCallTest, ACallerWhoLeavesFreesTheWorker) {
  Worker& worker = AddWorker({.mode = Worker::Mode::kHold});
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Ask("x"));
  const uint64_t id = worker.NextStart().call_id();
  EXPECT_EQ(InFlight(), 1);
  context.TryCancel();
  ASSERT_TRUE(worker.AwaitCancel(id));
  EXPECT_TRUE(absl::IsCancelled(Read(*reader).status));
  worker.SendEnd(id, absl::CancelledError("as you wish"));
  EXPECT_TRUE(Await([&] { return InFlight() == 0; }));
}

TEST_F(GenerateCallTest, ADeadlineReachesTheWorker) {
  Worker& worker = AddWorker({.mode = Worker::Mode::kHold});
  const Answer answer = Generate(Ask("x"), std::chrono::milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status)) << answer.status;
  EXPECT_TRUE(worker.AwaitCancel(worker.NextStart().call_id()));
}

TEST_F(GenerateCallTest, AWorkerThatDiesMidStreamEndsItWithAFinishAndAReason) {
  Worker& worker = AddWorker({.mode = Worker::Mode::kHold});
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Ask("x"));
  const uint64_t id = worker.NextStart().call_id();
  worker.Send(id, Letter(0, 'a'));
  v1::GenerateResponse first;
  ASSERT_TRUE(reader->Read(&first));
  worker.BreakSessions();
  const Answer answer = Read(*reader);
  ASSERT_EQ(answer.responses.size(), 1u);
  EXPECT_EQ(answer.responses[0].finish().reason(), v1::FINISH_REASON_ERROR);
  EXPECT_EQ(answer.responses[0].first_token(), 1);
  EXPECT_TRUE(absl::IsUnavailable(answer.status)) << answer.status;
  EXPECT_EQ(ReasonOf(answer.status), kWorkerLost);
}

TEST_F(GenerateCallTest, AWorkerThatDiesBeforeTheFirstTokenIsNotNoticed) {
  Worker& dying = AddWorker({.mode = Worker::Mode::kHold});
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Ask("hello"));
  dying.NextStart();
  AddWorker();
  dying.BreakSessions();
  const Answer answer = Read(*reader);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.text(), "hello");
}

TEST_F(GenerateCallTest, RefusesMoreOpenCallsThanItMayHold) {
  Worker& worker = AddWorker({.mode = Worker::Mode::kHold});
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  for (int i = 0; i < 3; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(stub_->Generate(contexts.back().get(), Ask("x")));
    ASSERT_NE(worker.NextStart().call_id(), 0u);
  }
  const Answer refused = Generate(Ask("x"));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status)) << refused.status;
  EXPECT_EQ(ReasonOf(refused.status), "QUEUE_FULL");
  EXPECT_TRUE(RetryAfterOf(refused.status).has_value());
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& reader : readers) EXPECT_TRUE(absl::IsCancelled(Read(*reader).status));
}

TEST_F(GenerateCallTest, ARouterThatLeavesLetsOpenCallsEndAndSendsOthersElsewhere) {
  Worker& worker = AddWorker({.mode = Worker::Mode::kHold});
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Ask("x"));
  const uint64_t id = worker.NextStart().call_id();
  admission_.Close();
  const Answer refused = Generate(Ask("x"));
  EXPECT_TRUE(absl::IsUnavailable(refused.status)) << refused.status;
  EXPECT_EQ(ReasonOf(refused.status), "DRAINING");
  worker.Send(id, Letter(0, 'a'));
  worker.SendEnd(id, absl::OkStatus());
  const Answer answer = Read(*reader);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.text(), "a");
}

// A caller who does not read makes the router join what waits instead of keeping each message. The answer is
// longer than what gRPC itself takes in before the first read.
TEST_F(GenerateCallTest, ASlowReaderGetsTheWholeAnswerInFewerPieces) {
  Worker& worker = AddWorker({.mode = Worker::Mode::kHold});
  constexpr int kTokens = 10000;
  constexpr size_t kBytes = 2000;
  const auto text_of = [](int position) {
    return std::string(kBytes, static_cast<char>('a' + position % 26));
  };
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Ask("x"));
  const uint64_t id = worker.NextStart().call_id();
  for (int i = 0; i < kTokens; ++i) {
    v1::GenerateResponse response = Letter(i, 'x');
    response.set_text(text_of(i));
    worker.Send(id, response);
  }
  worker.SendEnd(id, absl::OkStatus());
  // The router has it all before the first read.
  ASSERT_TRUE(Await([&] { return InFlight() == 0; }));
  const Answer answer = Read(*reader);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_LT(answer.responses.size(), size_t{kTokens} * 3 / 4);
  std::string expected;
  for (int i = 0; i < kTokens; ++i) expected += text_of(i);
  EXPECT_TRUE(answer.text() == expected);
  size_t seen = 0;
  for (const v1::GenerateResponse& response : answer.responses) {
    ASSERT_EQ(response.first_token(), static_cast<int>(seen));
    ASSERT_LT(response.ByteSizeLong(), size_t{1} << 20);
    seen += response.text().size() / kBytes;
  }
}

}  // namespace
}  // namespace qanat::router
