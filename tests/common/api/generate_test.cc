// What is accepted, what follows from it, and the calls beside Generate.
#include "common/api/generate.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/api/limits.h"
#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/api/generate_fixture.h"

namespace qanat::api {
namespace {

using ::testing::HasSubstr;
using v1::GenerateRequest;

TEST(GenerateTest, FillsInTheDefaults) {
  const auto params = Validate([](GenerateRequest&) {});
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->temperature, 1.0f);
  EXPECT_EQ(params->top_k, 0);
  EXPECT_EQ(params->top_p, 1.0f);
  EXPECT_EQ(params->min_p, 0.0f);
  EXPECT_EQ(params->presence_penalty, 0.0f);
  EXPECT_EQ(params->frequency_penalty, 0.0f);
  EXPECT_EQ(params->repetition_penalty, 1.0f);
  EXPECT_TRUE(params->logit_bias.empty() && params->allowed_token_ids.empty());
  EXPECT_EQ(params->n, 1);
  EXPECT_EQ(params->min_tokens, 0);
  EXPECT_TRUE(params->stop_token_ids.empty());
  EXPECT_FALSE(params->include_stop);
  EXPECT_EQ(params->seed, 77u);
  EXPECT_EQ(params->max_tokens, 0);
  EXPECT_TRUE(params->stop.empty());
  EXPECT_FALSE(params->ignore_eos);
  EXPECT_FALSE(params->return_token_ids);
  EXPECT_FALSE(params->logprobs.has_value() || params->prompt_logprobs.has_value());
  EXPECT_FALSE(params->final_only);
  EXPECT_EQ(params->priority, Priority::kStandard);
  EXPECT_FALSE(params->bypass_prefix_cache);
}

TEST(GenerateTest, TakesEveryHonouredField) {
  const auto params = Validate([](GenerateRequest& r) {
    r.set_model("tiny");
    r.set_request_id(std::string(256, 'i'));
    r.set_priority(v1::PRIORITY_BATCH);
    r.set_cache_salt(std::string(256, 's'));
    r.set_bypass_prefix_cache(true);
    r.mutable_sampling()->set_temperature(0);
    r.mutable_sampling()->set_top_k(999);
    r.mutable_sampling()->set_top_p(0.25f);
    r.mutable_sampling()->set_min_p(1);
    r.mutable_sampling()->set_presence_penalty(-2);
    r.mutable_sampling()->set_frequency_penalty(2);
    r.mutable_sampling()->set_repetition_penalty(10);
    for (int i = 0; i < 1000; ++i) (*r.mutable_sampling()->mutable_logit_bias())[i] = i == 7 ? -100 : 100;
    for (const int id : {9, 3, 9, 0}) r.mutable_sampling()->add_allowed_token_ids(id);
    r.mutable_sampling()->set_seed(0);
    r.mutable_sampling()->set_n(16);
    r.mutable_stopping()->set_max_tokens(1 << 30);
    r.mutable_stopping()->set_min_tokens(1 << 30);
    for (const int id : {5, 999, 5}) r.mutable_stopping()->add_stop_token_ids(id);
    r.mutable_stopping()->set_include_stop(true);
    for (int i = 0; i < 16; ++i) r.mutable_stopping()->add_stop(std::string(256, 'x'));
    r.mutable_stopping()->set_ignore_eos(true);
    r.mutable_output()->set_token_ids(true);
    r.mutable_output()->set_logprobs(0);
    r.mutable_output()->set_prompt_logprobs(20);
    r.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
  });
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->request_id, std::string(256, 'i'));
  EXPECT_EQ(params->priority, Priority::kBatch);
  EXPECT_EQ(params->cache_salt, std::string(256, 's'));
  EXPECT_TRUE(params->bypass_prefix_cache);
  EXPECT_EQ(params->temperature, 0.0f);
  EXPECT_EQ(params->top_k, 999);
  EXPECT_EQ(params->top_p, 0.25f);
  EXPECT_EQ(params->min_p, 1.0f);
  EXPECT_EQ(params->presence_penalty, -2.0f);
  EXPECT_EQ(params->frequency_penalty, 2.0f);
  EXPECT_EQ(params->repetition_penalty, 10.0f);
  ASSERT_EQ(params->logit_bias.size(), 1000u);
  EXPECT_EQ(params->logit_bias[7], (std::pair<TokenId, float>(7, -100.0f)));
  EXPECT_EQ(params->allowed_token_ids, (std::vector<TokenId>{0, 3, 9}));
  EXPECT_EQ(params->n, 16);
  EXPECT_EQ(params->min_tokens, 1 << 30);
  EXPECT_EQ(params->stop_token_ids, (std::vector<TokenId>{5, 999}));
  EXPECT_TRUE(params->include_stop);
  EXPECT_EQ(params->seed, 0u) << "zero is zero, not unset";
  EXPECT_EQ(params->max_tokens, 1 << 30);
  EXPECT_EQ(params->stop.size(), 16u);
  EXPECT_TRUE(params->ignore_eos);
  EXPECT_TRUE(params->return_token_ids);
  EXPECT_EQ(params->logprobs, 0);
  EXPECT_EQ(params->prompt_logprobs, 20);
  EXPECT_TRUE(params->final_only);
}

TEST(GenerateTest, AcceptsTheEndsOfRanges) {
  for (const float temperature : {0.0f, 1e-30f, 2.0f}) {
    EXPECT_TRUE(Validate([&](auto& r) { r.mutable_sampling()->set_temperature(temperature); }).ok());
  }
  EXPECT_TRUE(Validate([](auto& r) { r.mutable_sampling()->set_top_p(1e-30f); }).ok());
  EXPECT_TRUE(Validate([](auto& r) { r.mutable_sampling()->set_repetition_penalty(1e-30f); }).ok());
  EXPECT_TRUE(Validate([](auto& r) { r.mutable_token_ids()->mutable_ids()->Resize(127, 999); }).ok());
  EXPECT_TRUE(Validate([](auto& r) { AddChat(r, 1024); }).ok());
  EXPECT_TRUE(Validate([](auto& r) { r.set_text(std::string(MaxPromptBytes(128), 'a')); }).ok());
}

TEST(GenerateTest, HonoursWhatDoesNothingByDoingNothing) {
  const auto params = Validate([](GenerateRequest& r) {
    r.mutable_sampling()->set_presence_penalty(0);
    r.mutable_sampling()->set_frequency_penalty(0);
    r.mutable_sampling()->set_repetition_penalty(1);
    r.mutable_sampling()->set_n(1);
    r.mutable_stopping()->set_min_tokens(0);
  });
  EXPECT_TRUE(params.ok()) << params.status();
}

TEST(GenerateTest, TopKAtOrAboveTheVocabularyIsOff) {
  for (const int k : {1000, std::numeric_limits<int32_t>::max()}) {
    const auto params = Validate([&](auto& r) { r.mutable_sampling()->set_top_k(k); });
    ASSERT_TRUE(params.ok()) << params.status();
    EXPECT_EQ(params->top_k, 0);
  }
}

TEST(GenerateTest, RefusesUnknownFieldsByNumber) {
  GenerateRequest request = With([](GenerateRequest& r) { AddChat(r, 2); });
  v1::ChatMessage& message = *request.mutable_chat()->mutable_messages(1);
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(99, 1);
  const absl::Status status = ValidateGenerate(request, Model(), 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("99"));
  EXPECT_EQ(FieldOf(status), "chat.messages[1].99");
}

TEST(CheckMayDrawTest, RefusesWhenOnlyMaskedEndsAreAllowed) {
  GenerateParams params;
  params.allowed_token_ids = {2, 5};
  params.stop_token_ids = {5};
  EXPECT_TRUE(CheckMayDraw(params, {2}).ok());
  params.min_tokens = 1;
  EXPECT_EQ(FieldOf(CheckMayDraw(params, {2})), "stopping.min_tokens");
  EXPECT_TRUE(CheckMayDraw(params, {3}).ok());
  params.allowed_token_ids = {};
  EXPECT_TRUE(CheckMayDraw(params, {2}).ok());
}

// --- After encoding
// --------------------------------------------------------------------------------------------

std::vector<TokenId> Prompt(int tokens) { return std::vector<TokenId>(tokens, 5); }

TEST(ClipMaxTokensTest, ClipsToTheContext) {
  GenerateParams params;
  EXPECT_EQ(*ClipMaxTokens(params, Prompt(28), Model()), 100);
  params.max_tokens = 7;
  EXPECT_EQ(*ClipMaxTokens(params, Prompt(28), Model()), 7);
  params.max_tokens = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(*ClipMaxTokens(params, Prompt(28), Model()), 100);
  EXPECT_EQ(*ClipMaxTokens(params, Prompt(127), Model()), 1);
}

TEST(ClipMaxTokensTest, RefusesAPromptAsLongAsTheContextWithBothNumbers) {
  for (const int tokens : {128, 129}) {
    const absl::Status status = ClipMaxTokens({}, Prompt(tokens), Model()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(status), "PROMPT_TOO_LONG");
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(tokens)));
    EXPECT_THAT(std::string(status.message()), HasSubstr("128"));
  }
}

TEST(ClipMaxTokensTest, RefusesAnEmptyPrompt) {
  const absl::Status status = ClipMaxTokens({}, {}, Model()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), "EMPTY_PROMPT");
  EXPECT_THAT(std::string(status.message()), HasSubstr("empty prompt"));
}

TEST(ClipMaxTokensTest, RefusesIdsOutsideTheVocabulary) {
  EXPECT_EQ(ClipMaxTokens({}, {1, 1000}, Model()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ClipMaxTokens({}, {-1}, Model()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ClipMaxTokensTest, RefusesWhatNoPoolCanHoldWithBothNumbers) {
  ServedModel model = Model();
  model.pool_tokens = 64;
  GenerateParams params;
  params.max_tokens = 44;
  EXPECT_EQ(*ClipMaxTokens(params, Prompt(20), model), 44);
  params.max_tokens = 45;
  const absl::Status status = ClipMaxTokens(params, Prompt(20), model).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), "NEVER_FITS");
  EXPECT_THAT(std::string(status.message()), HasSubstr("65"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("64"));
}

TEST(ClipMaxTokensTest, EachChoiceTakesItsOwnTailBehindTheSharedPrompt) {
  ServedModel model = Model();
  GenerateParams params;
  params.n = 3;
  params.max_tokens = 8;
  // Of 33 tokens two full blocks are shared; each choice has one more.
  model.pool_tokens = (2 + 3) * 16;
  EXPECT_TRUE(ClipMaxTokens(params, Prompt(33), model).ok());
  params.n = 4;
  EXPECT_EQ(ReasonOf(ClipMaxTokens(params, Prompt(33), model).status()), "NEVER_FITS");
}

// --- The other calls
// -------------------------------------------------------------------------------------------

TEST(TokenizeTest, ValidatesModelAndInput) {
  v1::TokenizeRequest request;
  EXPECT_EQ(FieldOf(ValidateTokenize(request, Model())), "input");
  request.set_text("");
  EXPECT_TRUE(ValidateTokenize(request, Model()).ok());
  request.set_text(std::string(MaxPromptBytes(128) + 1, 'a'));
  EXPECT_EQ(FieldOf(ValidateTokenize(request, Model())), "text");
  request.mutable_chat();
  EXPECT_EQ(FieldOf(ValidateTokenize(request, Model())), "chat.messages");
  request.set_model("other");
  EXPECT_EQ(ValidateTokenize(request, Model()).code(), absl::StatusCode::kNotFound);
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(12, 1);
  EXPECT_EQ(FieldOf(ValidateTokenize(request, Model())), "12");
}

TEST(DetokenizeTest, ValidatesModelAndIds) {
  v1::DetokenizeRequest request;
  EXPECT_TRUE(ValidateDetokenize(request, Model()).ok());
  request.add_token_ids(999);
  EXPECT_TRUE(ValidateDetokenize(request, Model()).ok());
  request.add_token_ids(1000);
  EXPECT_EQ(FieldOf(ValidateDetokenize(request, Model())), "token_ids[1]");
  request.mutable_token_ids()->Resize(65537, 0);
  EXPECT_EQ(FieldOf(ValidateDetokenize(request, Model())), "token_ids");
  request.set_model("other");
  EXPECT_EQ(ValidateDetokenize(request, Model()).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace qanat::api
