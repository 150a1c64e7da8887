// Generate over a real server and a real engine: the laws of docs/service.md.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/text/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"
#include "worker/service/generation.h"

namespace qanat::service {
namespace {

using ::testing::HasSubstr;

constexpr char kFire[] = "\xF0\x9F\x94\xA5";

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

// A08.
TEST_F(GenerateTest, AStopInsideATokenEndsTheAnswerBeforeIt) {
  std::vector<TokenId> script = Bytes("ABC");
  script.push_back(worker_->tokenizer().Encode("DEF").at(0));
  for (const TokenId id : Bytes("GHIJKLMNOP")) script.push_back(id);
  runner_.SetScript(kSeed, script);
  for (const char* stop : {"DE", "E", "CD"}) {
    v1::GenerateRequest request = Request();
    request.mutable_stopping()->add_stop(stop);
    const Heard heard = Generate(request);
    ASSERT_TRUE(heard.status.ok()) << heard.status;
    EXPECT_EQ(heard.text(), std::string("ABCDEF").substr(0, std::string("ABCDEF").find(stop)));
    EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_STOP);
    EXPECT_EQ(heard.last().finish().stop(), stop);
    EXPECT_EQ(heard.last().usage().completion_tokens(), 4) << "up to the token that completed the stop";
    EXPECT_EQ(heard.ids().size(), 4u) << "nothing of what the engine ran ahead";
  }
}

// A09.
TEST_F(GenerateTest, APossibleStopIsHeldBackAndReleased) {
  Script("ABCDEFGHIJKL");
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop("DEFGHIJ");
  EXPECT_EQ(Generate(request).text(), "ABC");
  request.mutable_stopping()->set_stop(0, "DEFGHIJK!");
  EXPECT_EQ(Generate(request).text(), "ABCDEFGHIJKL");
  request.mutable_stopping()->set_max_tokens(9);
  const Heard cut = Generate(request);
  EXPECT_EQ(cut.text(), "ABCDEFGHI");
  EXPECT_EQ(cut.last().finish().reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(GenerateTest, IdsDoNotWaitForTextThatDoes) {
  Script("DEFx");
  runner_.Allow(1);
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop("DEFG");
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_EQ(message.text(), "");
  EXPECT_EQ(message.token_ids_size(), 1);
  runner_.Allow(-1);
  std::string text;
  while (reader->Read(&message)) text += message.text();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(text, "DEFx");
}

TEST_F(GenerateTest, IgnoreEosGoesOnToTheLength) {
  Script("a");
  v1::GenerateRequest request = Request(5);
  request.mutable_stopping()->set_ignore_eos(true);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(heard.last().usage().completion_tokens(), 5);
  EXPECT_EQ(heard.text(), "a");
}

TEST_F(GenerateTest, AStopTokenEndsTheAnswerAndIsNamed) {
  Script("abcdefghij");
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop_token_ids(fakes::ByteToken('z'));
  request.mutable_stopping()->add_stop_token_ids(fakes::ByteToken('d'));
  for (const bool include : {false, true}) {
    request.mutable_stopping()->set_include_stop(include);
    const Heard heard = Generate(request);
    ASSERT_TRUE(heard.status.ok()) << heard.status;
    EXPECT_EQ(heard.text(), include ? "abcd" : "abc");
    EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_STOP);
    EXPECT_EQ(heard.last().finish().stop_token_id(), fakes::ByteToken('d'));
    EXPECT_EQ(heard.last().usage().completion_tokens(), 4);
    EXPECT_EQ(heard.ids().size(), 4u);
  }
}

TEST_F(GenerateTest, IncludesAStopStringIfAskedTo) {
  Script("abcdefghij");
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop("de");
  request.mutable_stopping()->set_include_stop(true);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.text(), "abcde");
  EXPECT_EQ(heard.last().finish().stop(), "de");
}

TEST_F(GenerateTest, AStopStringBeforeMinTokensIsText) {
  Script("abab");
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop("ab");
  request.mutable_stopping()->set_min_tokens(3);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.text(), "ab");
  EXPECT_EQ(heard.last().usage().completion_tokens(), 4);
}

TEST_F(GenerateTest, RefusesMinTokensThatMaskAllThatIsAllowed) {
  v1::GenerateRequest request = Request(5);
  request.mutable_sampling()->add_allowed_token_ids(worker_->tokenizer().eos());
  request.mutable_stopping()->set_min_tokens(1);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(heard.status), "stopping.min_tokens");
}

// --- Log-probabilities and delivery
// ------------------------------------------------------------------------------------

std::vector<v1::TokenLogprob> Logprobs(const Heard& heard) {
  std::vector<v1::TokenLogprob> all;
  for (const auto& message : heard.messages) {
    all.insert(all.end(), message.logprobs().begin(), message.logprobs().end());
  }
  return all;
}

TEST_F(GenerateTest, ScoresEveryTokenWithItsBytes) {
  Script(std::string("a") + kFire);
  v1::GenerateRequest request = Request();
  request.mutable_output()->set_logprobs(2);
  const Heard heard = Generate(request);
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  const auto logprobs = Logprobs(heard);
  ASSERT_EQ(static_cast<int>(logprobs.size()), heard.last().usage().completion_tokens());
  const std::string bytes = std::string("a") + kFire;
  for (size_t i = 0; i < logprobs.size(); ++i) {
    EXPECT_EQ(logprobs[i].token_id(), heard.ids()[i]);
    EXPECT_EQ(logprobs[i].token(), i < bytes.size() ? bytes.substr(i, 1) : "")
        << "one byte, or the end token";
    EXPECT_EQ(logprobs[i].logprob(), ScriptedRunner::LogprobAt(static_cast<uint32_t>(i)));
    EXPECT_EQ(logprobs[i].alternatives_size(), 2);
  }
  request.mutable_output()->clear_logprobs();
  EXPECT_TRUE(Logprobs(Generate(request)).empty());
}

TEST_F(GenerateTest, ScoresThePromptBeforeTheFirstToken) {
  Script("ab");
  v1::GenerateRequest request = Request();
  request.mutable_output()->set_prompt_logprobs(1);
  const Heard heard = Generate(request);
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  std::string bytes;
  for (const auto& message : heard.messages) {
    EXPECT_TRUE(message.prompt_logprobs().empty() || message.first_token() == 0);
    for (const auto& scored : message.prompt_logprobs()) bytes += scored.token();
  }
  EXPECT_EQ(bytes, "rompt");
  EXPECT_TRUE(Logprobs(heard).empty());
}

TEST_F(GenerateTest, FinalOnlyIsOneMessage) {
  Script("hello world, and so on");
  const Heard deltas = Generate(Request());
  v1::GenerateRequest request = Request();
  request.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
  request.mutable_output()->set_logprobs(1);
  request.mutable_output()->set_prompt_logprobs(0);
  const Heard heard = Generate(request);
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  ASSERT_EQ(heard.messages.size(), 1u);
  EXPECT_EQ(heard.text(), deltas.text());
  EXPECT_EQ(heard.ids(), deltas.ids());
  EXPECT_EQ(heard.last().logprobs_size(), heard.last().usage().completion_tokens());
  EXPECT_EQ(heard.last().prompt_logprobs_size(), 5);
}

TEST_F(GenerateTest, FinalOnlyTellsHowFarItCameBeforeItFailed) {
  Script("abc");
  runner_.FailAt(kSeed, 2);
  v1::GenerateRequest request = Request();
  request.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kInternal);
  ASSERT_EQ(heard.messages.size(), 1u);
  EXPECT_EQ(heard.text(), "ab");
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_ERROR);
}

TEST_F(GenerateTest, AMessageThatWouldPassAMebibyteIsSplit) {
  FixtureOptions options;
  options.context_length = 6000;
  options.num_blocks = 400;
  Start(options);
  for (const auto delivery : {v1::DELIVERY_FINAL_ONLY, v1::DELIVERY_DELTAS}) {
    v1::GenerateRequest request = Request(5);
    request.mutable_token_ids()->mutable_ids()->Resize(5000, fakes::ByteToken('p'));
    request.mutable_output()->set_prompt_logprobs(20);
    request.mutable_output()->set_delivery(delivery);
    const Heard heard = Generate(request);
    ASSERT_TRUE(heard.status.ok()) << heard.status;
    ASSERT_GT(heard.messages.size(), 1u);
    int scored = 0;
    for (const auto& message : heard.messages) {
      EXPECT_LE(message.ByteSizeLong(), size_t{1} << 20);
      EXPECT_TRUE(message.prompt_logprobs().empty() || message.first_token() == 0);
      scored += message.prompt_logprobs_size();
    }
    EXPECT_EQ(scored, 4999);
    EXPECT_EQ(heard.text(), "xxxxx");
    EXPECT_EQ(heard.ids().size(), 5u);
  }
}

// --- Choices
// ------------------------------------------------------------------------------------

TEST_F(GenerateTest, ChoicesHaveTheirOwnTextAndEndAndOneStatus) {
  Script("first");
  for (uint32_t choice = 1; choice < 4; ++choice) {
    runner_.SetScript(kSeed, Bytes(std::string(choice, 'a') + "bcdef"), choice);
  }
  for (const auto delivery : {v1::DELIVERY_DELTAS, v1::DELIVERY_FINAL_ONLY}) {
    v1::GenerateRequest request = Request(8);
    request.mutable_sampling()->set_n(4);
    request.mutable_stopping()->add_stop("cd");
    request.mutable_output()->set_delivery(delivery);
    const Heard heard = Generate(request);
    ASSERT_TRUE(heard.status.ok()) << heard.status;
    EXPECT_EQ(heard.text(0), "first");
    for (int choice = 1; choice < 4; ++choice) {
      EXPECT_EQ(heard.text(choice), std::string(choice, 'a') + "b");
      EXPECT_EQ(heard.finish(choice).stop(), "cd");
    }
    EXPECT_EQ(heard.last().usage().prompt_tokens(), 6) << "once";
    EXPECT_EQ(heard.last().usage().completion_tokens(), 6 + 4 + 5 + 6);
    if (delivery == v1::DELIVERY_FINAL_ONLY) {
      EXPECT_EQ(heard.messages.size(), 4u);
    }
  }
  EXPECT_TRUE(worker_->WaitUntilIdle());
}

TEST_F(GenerateTest, TheFirstChoiceIsTheAnswerWithoutOthers) {
  Script("the one");
  const Heard alone = Generate(Request());
  v1::GenerateRequest request = Request();
  request.mutable_sampling()->set_n(2);
  request.mutable_stopping()->set_max_tokens(20);
  EXPECT_EQ(Generate(request).text(0), alone.text());
}

TEST_F(GenerateTest, AChoiceThatFailsEndsTheCallAndTheOthers) {
  runner_.FailAt(kSeed, 3);  // of any choice
  v1::GenerateRequest request = Request(200);
  request.mutable_sampling()->set_n(3);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(heard.finish(0).reason(), v1::FINISH_REASON_ERROR);
  EXPECT_TRUE(heard.last().has_usage());
  EXPECT_TRUE(worker_->WaitUntilIdle());
}

TEST_F(GenerateTest, CancellingEndsEveryChoice) {
  for (const int steps : {0, 1, 5}) {
    runner_.Allow(steps);
    grpc::ClientContext context;
    v1::GenerateRequest request = Request();
    request.mutable_sampling()->set_n(5);
    const auto reader = stub_->Generate(&context, request);
    runner_.WaitUntilHeld();
    context.TryCancel();
    for (v1::GenerateResponse message; reader->Read(&message);) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
    runner_.Allow(-1);
    EXPECT_TRUE(worker_->WaitUntilIdle());
  }
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
    std::string text;
    for (v1::GenerateResponse message; reader->Read(&message);) {
      EXPECT_EQ(message.request_id(), "same");
      text += message.text();
    }
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(text, "xxx");
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

TEST_F(GenerateTest, CancellingEndsTheWorkInAnyState) {
  for (const int steps : {0, 1, 3}) {
    runner_.Allow(steps);
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, Request());
    v1::GenerateResponse message;
    if (steps > 0) {
      ASSERT_TRUE(reader->Read(&message));
    }
    runner_.WaitUntilHeld();
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
    runner_.Allow(-1);
    EXPECT_TRUE(worker_->WaitUntilIdle());
  }
}

TEST_F(GenerateTest, TheDeadlineOfTheCallIsTheRequests) {
  runner_.Allow(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  const Heard heard = Generate(Request(), context);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kDeadlineExceeded);
  runner_.Allow(-1);
  EXPECT_TRUE(worker_->WaitUntilIdle());
}

TEST_F(GenerateTest, ADeadlineInTheQueueEndsTheCall) {
  FixtureOptions options;
  options.max_seqs = 1;
  Start(options);
  runner_.Allow(0);
  grpc::ClientContext running_context;
  const auto running = stub_->Generate(&running_context, Request(2));
  runner_.WaitUntilHeld();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  EXPECT_EQ(Generate(Request(), context).status.code(), absl::StatusCode::kDeadlineExceeded);
  runner_.Allow(-1);
  for (v1::GenerateResponse message; running->Read(&message);) {
  }
  EXPECT_TRUE(running->Finish().ok());
  EXPECT_TRUE(worker_->WaitUntilIdle());
}

TEST_F(GenerateTest, ARowThatFailsIsInternalAndTellsNothing) {
  Script("abc");
  runner_.FailAt(kSeed, 2);
  const Heard heard = Generate(Request());
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(heard.status.message(), "internal error");
  ASSERT_FALSE(heard.messages.empty());
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_ERROR);
  EXPECT_EQ(heard.text(), "ab");
}

TEST_F(GenerateTest, ADrainingWorkerRefusesAndFinishesWhatRuns) {
  Script("abc");
  runner_.Allow(1);
  grpc::ClientContext context;
  const auto running = stub_->Generate(&context, Request());
  v1::GenerateResponse message;
  ASSERT_TRUE(running->Read(&message));
  worker_->engine().Drain();
  const Heard refused = Generate(Request());
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused.status), "DRAINING");
  runner_.Allow(-1);
  std::string text = message.text();
  while (running->Read(&message)) text += message.text();
  EXPECT_TRUE(running->Finish().ok());
  EXPECT_EQ(text, "abc");
}

TEST_F(GenerateTest, WhatIsLeftAtTheDrainLimitMayGoOnElsewhere) {
  Script("abDEFGHI");
  runner_.Allow(4);
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop("DEFGH!");
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  runner_.WaitUntilHeld();
  worker_->engine().Drain();
  const RealClock clock;
  EXPECT_FALSE(worker_->live().WaitUntilEmpty(std::chrono::milliseconds(1), clock));
  worker_->live().ForEach([](Generation& generation) {
    generation.Abort(engine::EndReason::kError, WithReason(absl::UnavailableError("leaving"), "DRAINING"));
  });
  runner_.Allow(-1);
  Heard heard;
  for (v1::GenerateResponse message; reader->Read(&message);) heard.messages.push_back(message);
  heard.status = rpc::FromGrpc(reader->Finish());
  ExpectLaws(heard);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(heard.status), "DRAINING");
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_ERROR);
  EXPECT_EQ(heard.text(), "ab") << "what may become a stop is for the next worker to say";
  EXPECT_TRUE(worker_->WaitUntilIdle());
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
