#include "worker/service/build_request.h"

#include <utility>
#include <vector>

#include "common/base/status_macros.h"

namespace qanat::service {
namespace {

engine::Priority ToEngine(api::Priority priority) {
  switch (priority) {
    case api::Priority::kInteractive:
      return engine::Priority::kInteractive;
    case api::Priority::kStandard:
      return engine::Priority::kStandard;
    case api::Priority::kBatch:
      break;
  }
  return engine::Priority::kBatch;
}

sampling::Params SamplingOf(const api::GenerateParams& params) {
  sampling::Params out;
  out.temperature = params.temperature;
  out.top_k = params.top_k;
  out.top_p = params.top_p;
  out.min_p = params.min_p;
  return out;
}

// Null when there is none.
std::shared_ptr<const sampling::LogitRules> RulesOf(const api::GenerateParams& params,
                                                    const std::vector<TokenId>& eog) {
  sampling::LogitRules rules;
  rules.repetition_penalty = params.repetition_penalty;
  rules.presence_penalty = params.presence_penalty;
  rules.frequency_penalty = params.frequency_penalty;
  rules.bias = params.logit_bias;
  rules.allowed = params.allowed_token_ids;
  rules.min_tokens = params.min_tokens;
  if (!rules.any()) return nullptr;
  // The model's own ends, too, when they are ignored: text after one of them is of no use.
  rules.late = eog;
  rules.late.insert(rules.late.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
  return std::make_shared<const sampling::LogitRules>(std::move(rules));
}

}  // namespace

absl::StatusOr<engine::Request> BuildRequest(const ServiceContext& context, const Call& call,
                                             const api::GenerateParams& params) {
  const std::vector<TokenId>& eog = context.tokenizer.vocabulary().eog;
  QANAT_RETURN_IF_ERROR(api::CheckMayDraw(params, eog));
  engine::Request request;
  QANAT_ASSIGN_OR_RETURN(request.prompt,
                         api::EncodePrompt(*call.request, context.tokenizer, context.chat_template));
  QANAT_ASSIGN_OR_RETURN(request.max_tokens, api::ClipMaxTokens(params, request.prompt, context.info.model));
  request.cache_namespace = call.cache_namespace;
  request.sampling = SamplingOf(params);
  request.rules = RulesOf(params, eog);
  request.logprobs = params.logprobs;
  request.prompt_logprobs = params.prompt_logprobs;
  request.seed = params.seed;
  request.end_tokens = params.stop_token_ids;
  if (!params.ignore_eos) request.end_tokens.insert(request.end_tokens.end(), eog.begin(), eog.end());
  request.priority = ToEngine(params.priority);
  request.deadline = call.deadline;
  request.bypass_prefix_cache = params.bypass_prefix_cache;
  return request;
}

AnswerOptions AnswerOptionsOf(const api::GenerateParams& params) {
  AnswerOptions options;
  options.stops = params.stop;
  options.stop_token_ids = params.stop_token_ids;
  options.min_tokens = params.min_tokens;
  options.include_stop = params.include_stop;
  options.token_ids = params.return_token_ids;
  options.logprobs = params.logprobs.has_value();
  return options;
}

}  // namespace qanat::service
