// The table of fields: who is refused with what.
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "common/api/limits.h"
#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/common/api/generate_fixture.h"

namespace qanat::api {
namespace {

using v1::GenerateRequest;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Refusal {
  std::string name;
  absl::StatusCode code;
  std::string field;
  Change change;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

std::vector<Refusal> PromptRefusals() {
  return {
      {"NoPrompt", kInvalid, "prompt", [](GenerateRequest& r) { r.clear_prompt(); }},
      {"LongText", kInvalid, "text", [](auto& r) { r.set_text(std::string(MaxPromptBytes(128) + 1, 'a')); }},
      {"NoIds", kInvalid, "prompt", [](auto& r) { r.mutable_token_ids(); }},
      {"NegativeId", kInvalid, "token_ids.ids[1]",
       [](auto& r) { r.mutable_token_ids()->add_ids(1), r.mutable_token_ids()->add_ids(-1); }},
      {"IdOutsideVocabulary", kInvalid, "token_ids.ids[0]",
       [](auto& r) { r.mutable_token_ids()->add_ids(1000); }},
      {"AsManyIdsAsContext", kInvalid, "token_ids.ids",
       [](auto& r) { r.mutable_token_ids()->mutable_ids()->Resize(128, 5); }},
      {"NoMessages", kInvalid, "chat.messages", [](auto& r) { r.mutable_chat(); }},
      {"ManyMessages", kInvalid, "chat.messages", [](auto& r) { AddChat(r, 1025); }},
      {"NoRole", kInvalid, "chat.messages[0].role", [](auto& r) { r.mutable_chat()->add_messages(); }},
      {"LongRole", kInvalid, "chat.messages[0].role",
       [](auto& r) { r.mutable_chat()->add_messages()->set_role(std::string(65, 'a')); }},
      {"LongContent", kInvalid, "chat.messages",
       [](auto& r) {
         AddChat(r, 2);
         r.mutable_chat()->mutable_messages(1)->set_content(std::string(MaxPromptBytes(128), 'a'));
       }},
      {"LongToolCalls", kInvalid, "chat.messages[0].tool_calls_json",
       [](auto& r) {
         AddChat(r, 1);
         r.mutable_chat()->mutable_messages(0)->set_tool_calls_json(std::string(65537, ' '));
       }},
      {"LongTools", kInvalid, "chat.tools_json",
       [](auto& r) {
         AddChat(r, 1);
         r.mutable_chat()->set_tools_json(std::string(65537, ' '));
       }},
      {"LongTemplateArguments", kInvalid, "chat.template_arguments_json",
       [](auto& r) {
         AddChat(r, 1);
         r.mutable_chat()->set_template_arguments_json(std::string(65537, ' '));
       }},
      {"LongRequestId", kInvalid, "request_id", [](auto& r) { r.set_request_id(std::string(257, 'a')); }},
      {"LongSalt", kInvalid, "cache_salt", [](auto& r) { r.set_cache_salt(std::string(257, 'a')); }},
      {"Priority", kInvalid, "priority", [](auto& r) { r.set_priority(static_cast<v1::Priority>(9)); }},
      {"OtherModel", absl::StatusCode::kNotFound, "model", [](auto& r) { r.set_model("other"); }},
  };
}

// Values outside the bounds, for every number of SamplingParams.
std::vector<Refusal> SamplingRefusals() {
  std::vector<Refusal> out;
  const auto add = [&out](const char* field, std::vector<float> values,
                          void (v1::SamplingParams::*set)(float)) {
    for (size_t i = 0; i < values.size(); ++i) {
      out.push_back({field + std::to_string(i), kInvalid, std::string("sampling.") + field,
                     [set, value = values[i]](GenerateRequest& r) { (r.mutable_sampling()->*set)(value); }});
    }
  };
  using S = v1::SamplingParams;
  add("temperature", {-1, 2.001f, kNan, kInfinity, -kInfinity, -1e-30f}, &S::set_temperature);
  add("top_p", {0, -0.5f, 1.5f, kNan, kInfinity}, &S::set_top_p);
  add("min_p", {-1, 1.001f, kNan}, &S::set_min_p);
  add("presence_penalty", {-2.001f, 2.001f, kNan}, &S::set_presence_penalty);
  add("frequency_penalty", {-2.001f, 2.001f, kNan}, &S::set_frequency_penalty);
  add("repetition_penalty", {0, -1, 10.001f, kInfinity, kNan}, &S::set_repetition_penalty);
  for (const int k : {0, -1}) {
    out.push_back({"top_k" + std::to_string(k == 0), kInvalid, "sampling.top_k",
                   [k](GenerateRequest& r) { r.mutable_sampling()->set_top_k(k); }});
  }
  for (const int n : {0, -1, 17}) {
    out.push_back({"n" + std::to_string(n + 1), kInvalid, "sampling.n",
                   [n](GenerateRequest& r) { r.mutable_sampling()->set_n(n); }});
  }
  return out;
}

std::vector<Refusal> ListRefusals() {
  return {
      {"BiasIdNegative", kInvalid, "sampling.logit_bias",
       [](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[-1] = 1; }},
      {"BiasIdOutside", kInvalid, "sampling.logit_bias",
       [](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[1000] = 1; }},
      {"BiasValue", kInvalid, "sampling.logit_bias",
       [](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[1] = 100.5f; }},
      {"BiasNan", kInvalid, "sampling.logit_bias",
       [](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[1] = kNan; }},
      {"BiasMany", kInvalid, "sampling.logit_bias",
       [](auto& r) {
         for (int i = 0; i <= 1024; ++i) (*r.mutable_sampling()->mutable_logit_bias())[i] = 1;
       }},
      {"AllowedMany", kInvalid, "sampling.allowed_token_ids",
       [](auto& r) { r.mutable_sampling()->mutable_allowed_token_ids()->Resize(65537, 1); }},
      {"AllowedOutside", kInvalid, "sampling.allowed_token_ids[0]",
       [](auto& r) { r.mutable_sampling()->add_allowed_token_ids(1000); }},
      {"ConstraintWithoutKind", kInvalid, "sampling.constraint",
       [](auto& r) { r.mutable_sampling()->mutable_constraint(); }},
      {"ConstraintLongSchema", kInvalid, "sampling.constraint",
       [](auto& r) { r.mutable_sampling()->mutable_constraint()->set_json_schema(std::string(65537, 'a')); }},
      {"ConstraintLongRegex", kInvalid, "sampling.constraint",
       [](auto& r) { r.mutable_sampling()->mutable_constraint()->set_regex(std::string(65537, 'a')); }},
      {"ConstraintNoChoices", kInvalid, "sampling.constraint",
       [](auto& r) { r.mutable_sampling()->mutable_constraint()->mutable_choices(); }},
      {"ConstraintManyChoices", kInvalid, "sampling.constraint",
       [](auto& r) {
         for (int i = 0; i <= 1024; ++i)
           r.mutable_sampling()->mutable_constraint()->mutable_choices()->add_values("a");
       }},
      {"ConstraintLongChoices", kInvalid, "sampling.constraint",
       [](auto& r) {
         r.mutable_sampling()->mutable_constraint()->mutable_choices()->add_values(std::string(65537, 'a'));
       }},
      {"MaxTokensZero", kInvalid, "stopping.max_tokens",
       [](auto& r) { r.mutable_stopping()->set_max_tokens(0); }},
      {"MaxTokensNegative", kInvalid, "stopping.max_tokens",
       [](auto& r) { r.mutable_stopping()->set_max_tokens(-5); }},
      {"MinTokensNegative", kInvalid, "stopping.min_tokens",
       [](auto& r) { r.mutable_stopping()->set_min_tokens(-1); }},
      {"MinTokensAboveMax", kInvalid, "stopping.min_tokens",
       [](auto& r) { r.mutable_stopping()->set_max_tokens(4), r.mutable_stopping()->set_min_tokens(5); }},
      {"MinTokensAboveContext", kInvalid, "stopping.min_tokens",
       [](auto& r) { r.mutable_stopping()->set_min_tokens(129); }},
      {"StopMany", kInvalid, "stopping.stop",
       [](auto& r) {
         for (int i = 0; i < 17; ++i) r.mutable_stopping()->add_stop("a");
       }},
      {"StopEmpty", kInvalid, "stopping.stop[1]",
       [](auto& r) { r.mutable_stopping()->add_stop("a"), r.mutable_stopping()->add_stop(""); }},
      {"StopLong", kInvalid, "stopping.stop[0]",
       [](auto& r) { r.mutable_stopping()->add_stop(std::string(257, 'a')); }},
      {"StopIdsMany", kInvalid, "stopping.stop_token_ids",
       [](auto& r) { r.mutable_stopping()->mutable_stop_token_ids()->Resize(65, 1); }},
      {"StopIdsOutside", kInvalid, "stopping.stop_token_ids[0]",
       [](auto& r) { r.mutable_stopping()->add_stop_token_ids(-1); }},
      {"LogprobsMany", kInvalid, "output.logprobs", [](auto& r) { r.mutable_output()->set_logprobs(21); }},
      {"LogprobsNegative", kInvalid, "output.logprobs",
       [](auto& r) { r.mutable_output()->set_logprobs(-1); }},
      {"PromptLogprobsMany", kInvalid, "output.prompt_logprobs",
       [](auto& r) { r.mutable_output()->set_prompt_logprobs(21); }},
      {"Delivery", kInvalid, "output.delivery",
       [](auto& r) { r.mutable_output()->set_delivery(static_cast<v1::Delivery>(3)); }},
  };
}

// In range, understood, and not built: refused by name.
std::vector<Refusal> UnhonouredRefusals() {
  return {
      {"Constraint", kUnimplemented, "sampling.constraint",
       [](auto& r) { r.mutable_sampling()->mutable_constraint()->set_json_object(true); }},
  };
}

class GenerateRefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(GenerateRefusalTest, NamesTheField) {
  const absl::Status status = Validate(GetParam().change).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_EQ(FieldOf(status), GetParam().field) << status;
  EXPECT_NE(ReasonOf(status), "");
}

std::string NameOf(const ::testing::TestParamInfo<Refusal>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Prompt, GenerateRefusalTest, ::testing::ValuesIn(PromptRefusals()), NameOf);
INSTANTIATE_TEST_SUITE_P(Sampling, GenerateRefusalTest, ::testing::ValuesIn(SamplingRefusals()), NameOf);
INSTANTIATE_TEST_SUITE_P(Lists, GenerateRefusalTest, ::testing::ValuesIn(ListRefusals()), NameOf);
INSTANTIATE_TEST_SUITE_P(Unhonoured, GenerateRefusalTest, ::testing::ValuesIn(UnhonouredRefusals()), NameOf);

}  // namespace
}  // namespace qanat::api
