// Generate and the calls beside it over a real server and a real engine: the laws of docs/service.md.
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/text/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"

namespace qanat::service {
namespace {

using ::testing::HasSubstr;

using GenerateTest = GenerateFixture;

TEST_F(GenerateTest, StreamsTheWholeAnswerAndEndsOnce) {
  Script("hello world");
  v1::GenerateRequest request = Request();
  request.set_request_id("mine");
  const Heard heard = Generate(request);
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.text(), "hello world");
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(heard.last().usage().prompt_tokens(), 6);
  EXPECT_EQ(heard.last().usage().completion_tokens(), 12) << "the end token counts";
  EXPECT_EQ(heard.ids().size(), 12u);
  EXPECT_EQ(heard.last().seed(), kSeed);
  EXPECT_EQ(heard.last().timings().numerics_ids(0), "fake-1");
  for (const auto& message : heard.messages) EXPECT_EQ(message.request_id(), "mine");
}

TEST_F(GenerateTest, EveryMessageCoversTheTokensFromFirstTokenOn) {
  Script("abcdefghij");
  const Heard heard = Generate(Request());
  int32_t next = 0;
  for (const auto& message : heard.messages) {
    EXPECT_EQ(message.first_token(), next);
    next += message.token_ids_size();
  }
  EXPECT_EQ(next, 11);
}

TEST_F(GenerateTest, DrawsASeedAndNamesItWhenTheRequestHasNone) {
  v1::GenerateRequest request = Request(2);
  request.mutable_sampling()->clear_seed();
  const Heard heard = Generate(request);
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_GT(heard.last().seed(), 1000u);
}

TEST_F(GenerateTest, TakesPromptsAsIdsToo) {
  Script("ok");
  v1::GenerateRequest request = Request();
  request.mutable_token_ids()->add_ids(fakes::ByteToken('p'));
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.text(), "ok");
  EXPECT_EQ(heard.last().usage().prompt_tokens(), 1);
}

// A13.
TEST_F(GenerateTest, GivesExactlyMaxTokens) {
  for (const int max_tokens : {1, 2, 3}) {
    const Heard heard = Generate(Request(max_tokens));
    ASSERT_TRUE(heard.status.ok()) << heard.status;
    EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_LENGTH);
    EXPECT_EQ(heard.last().usage().completion_tokens(), max_tokens);
    EXPECT_EQ(heard.text(), std::string(max_tokens, 'x'));
  }
  v1::GenerateRequest zero = Request();
  zero.mutable_stopping()->set_max_tokens(0);
  const Heard refused = Generate(zero);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(refused.status), "stopping.max_tokens");
}

// A14.
TEST_F(GenerateTest, APromptOfContextLessOneYieldsOneToken) {
  v1::GenerateRequest request = Request(5);
  request.set_text(std::string(255, '1'));
  const Heard heard = Generate(request);
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.last().usage().completion_tokens(), 1);
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_LENGTH);
  for (const int tokens : {256, 257}) {
    request.set_text(std::string(tokens, '1'));
    const absl::Status status = Generate(request).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(tokens)));
    EXPECT_THAT(std::string(status.message()), HasSubstr("256"));
  }
  request.set_text("");
  EXPECT_EQ(ReasonOf(Generate(request).status), "EMPTY_PROMPT");
}

// A06.
TEST_F(GenerateTest, NeverShowsAPieceOfACharacter) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += std::string(i > 0 ? " " : "") + kFire;
  Script(text);
  for (const bool ids : {true, false}) {
    v1::GenerateRequest request = Request();
    request.mutable_output()->set_token_ids(ids);
    const Heard heard = Generate(request);
    EXPECT_EQ(heard.text(), text);
    for (const auto& message : heard.messages) {
      EXPECT_TRUE(text::IsValidUtf8(message.text()));
      EXPECT_EQ(message.text().find(std::string(text::kReplacement)), std::string::npos);
    }
  }
}

// A07.
TEST_F(GenerateTest, ACharacterThatIsCutOffIsOneReplacementAtTheEnd) {
  Script(kFire);
  const Heard heard = Generate(Request(2));
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.text(), text::kReplacement);
  EXPECT_EQ(heard.last().usage().completion_tokens(), 2);
}

// A15.
TEST_F(GenerateTest, OverlappingCallsMayShareARequestId) {
  runner_.Allow(0);
  v1::GenerateRequest request = Request(3);
  request.set_request_id("same");
  grpc::ClientContext first_context, second_context;
  const auto first = stub_->Generate(&first_context, request);
  const auto second = stub_->Generate(&second_context, request);
  runner_.Allow(-1);
  for (const auto& reader : {first.get(), second.get()}) {
    const Heard heard = ReadAll(*reader);
    for (const auto& message : heard.messages) EXPECT_EQ(message.request_id(), "same");
    EXPECT_TRUE(heard.status.ok()) << heard.status;
    EXPECT_EQ(heard.text(), "xxx");
  }
}

TEST_F(GenerateTest, RefusesWithTheFieldInTheDetails) {
  v1::GenerateRequest request = Request();
  request.mutable_sampling()->set_top_p(1.5f);
  Heard heard = Generate(request);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(heard.status), "sampling.top_p");
  EXPECT_EQ(ReasonOf(heard.status), "INVALID_FIELD");
  EXPECT_TRUE(heard.messages.empty());

  request = Request();
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(4711, 1);
  heard = Generate(request);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(heard.status.message()), HasSubstr("4711"));

  request = Request();
  request.set_model("other");
  EXPECT_EQ(Generate(request).status.code(), absl::StatusCode::kNotFound);

  request = Request();
  request.mutable_chat()->add_messages()->set_role("user");
  EXPECT_EQ(Generate(request).status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(worker_->Metrics(),
              HasSubstr("qanat_worker_refusals_total{model=\"tiny\",reason=\"invalid\"} 4\n"));
}

TEST_F(GenerateTest, CountsWhatItDelivers) {
  Script("abc");
  Generate(Request());
  v1::GenerateRequest stopped = Request();
  stopped.mutable_stopping()->add_stop("b");
  Generate(stopped);
  const std::string text = worker_->Metrics();
  for (const char* line : {"qanat_worker_requests_total{finish_reason=\"stop\",model=\"tiny\"} 2\n",
                           "qanat_worker_generated_tokens_total{model=\"tiny\"} 6\n",
                           "qanat_worker_prompt_tokens_total{model=\"tiny\"} 12\n",
                           "qanat_worker_time_to_first_token_seconds_count{model=\"tiny\"} 2\n",
                           "qanat_worker_request_duration_seconds_count{model=\"tiny\"} 2\n",
                           "qanat_worker_requests_running{model=\"tiny\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

// --- The other public calls
// ------------------------------------------------------------------------------------

TEST_F(GenerateTest, TokenizeAndDetokenizeAreGeneratesOwn) {
  v1::TokenizeRequest request;
  request.set_text(std::string("aDEF<|im_end|>") + kFire);
  v1::TokenizeResponse ids;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->Tokenize(&context, request, &ids).ok());
  }
  EXPECT_EQ(std::vector<TokenId>(ids.token_ids().begin(), ids.token_ids().end()),
            worker_->tokenizer().Encode(request.text()));
  v1::DetokenizeRequest back;
  *back.mutable_token_ids() = ids.token_ids();
  v1::DetokenizeResponse text;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->Detokenize(&context, back, &text).ok());
  }
  EXPECT_EQ(text.text(), request.text());
  back.add_token_ids(100000);
  grpc::ClientContext context;
  EXPECT_EQ(FieldOf(rpc::FromGrpc(stub_->Detokenize(&context, back, &text))),
            "token_ids[" + std::to_string(back.token_ids_size() - 1) + "]");
}

TEST_F(GenerateTest, ListsTheModel) {
  auto stub = v1::ModelService::NewStub(channel_);
  grpc::ClientContext context;
  v1::ListModelsResponse response;
  ASSERT_TRUE(stub->ListModels(&context, {}, &response).ok());
  ASSERT_EQ(response.models_size(), 1);
  EXPECT_EQ(response.models(0).id(), "tiny");
  EXPECT_EQ(response.models(0).context_length(), 256);
  EXPECT_FALSE(response.models(0).chat_template());
}

}  // namespace
}  // namespace qanat::service
