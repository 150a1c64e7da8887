#include "common/api/generate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/api/limits.h"
#include "common/api/unknown_fields.h"
#include "common/base/error.h"
#include "common/base/pool_tokens.h"
#include "common/base/status_macros.h"

namespace qanat::api {
namespace {

absl::Status CheckModel(const std::string& asked, const ServedModel& model) {
  if (asked.empty() || asked == model.id) return absl::OkStatus();
  return WithReason(WithField(absl::NotFoundError("model: not served here"), "model"), "MODEL_NOT_FOUND");
}

absl::Status CheckBytes(std::string_view field, size_t bytes, size_t limit) {
  if (bytes <= limit) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(bytes, " bytes, at most ", limit, " are allowed"));
}

absl::Status CheckCount(std::string_view field, int64_t count, int64_t limit) {
  if (count <= limit) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(count, " entries, at most ", limit, " are allowed"));
}

absl::Status CheckTokenId(std::string_view field, int64_t id, const ServedModel& model) {
  if (id >= 0 && id < model.vocab_size) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat("token id ", id, " is outside the vocabulary of ", model.vocab_size));
}

// Every id of a repeated field, the place of the bad one in the message.
template <typename Ids>
absl::Status CheckTokenIds(std::string_view field, const Ids& ids, const ServedModel& model) {
  for (int i = 0; i < ids.size(); ++i) {
    if (ids.Get(i) >= 0 && ids.Get(i) < model.vocab_size) continue;
    return CheckTokenId(absl::StrCat(absl::string_view(field.data(), field.size()), "[", i, "]"), ids.Get(i),
                        model);
  }
  return absl::OkStatus();
}

// Comparisons are written so that NaN fails them.
absl::Status CheckClosed(std::string_view field, double value, double low, double high) {
  if (low <= value && value <= high) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("must be in [", low, ", ", high, "], got ", value));
}

absl::Status CheckHalfOpen(std::string_view field, double value, double low, double high) {
  if (low < value && value <= high) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("must be in (", low, ", ", high, "], got ", value));
}

absl::Status TooLong(std::string_view field, int64_t tokens, const ServedModel& model) {
  return WithReason(
      InvalidField(field, absl::StrCat("the prompt has ", tokens,
                                       " tokens; it must be shorter than the context length of ",
                                       model.context_length)),
      "PROMPT_TOO_LONG");
}

absl::Status EmptyPrompt() {
  return WithReason(InvalidField("prompt", "empty prompt: nothing is left after encoding"), "EMPTY_PROMPT");
}

absl::Status CheckMessage(const v1::ChatMessage& message, const std::string& path) {
  if (message.role().empty()) return InvalidField(absl::StrCat(path, ".role"), "is empty");
  QANAT_RETURN_IF_ERROR(CheckBytes(absl::StrCat(path, ".role"), message.role().size(), kMaxRoleBytes));
  return CheckBytes(absl::StrCat(path, ".tool_calls_json"), message.tool_calls_json().size(), kMaxJsonBytes);
}

absl::Status CheckChat(const v1::ChatPrompt& chat, const ServedModel& model) {
  if (chat.messages().empty()) return InvalidField("chat.messages", "at least one message is needed");
  QANAT_RETURN_IF_ERROR(CheckBytes("chat.tools_json", chat.tools_json().size(), kMaxJsonBytes));
  QANAT_RETURN_IF_ERROR(
      CheckBytes("chat.template_arguments_json", chat.template_arguments_json().size(), kMaxJsonBytes));
  size_t bytes = 0;
  for (int i = 0; i < chat.messages_size(); ++i) {
    const v1::ChatMessage& message = chat.messages(i);
    QANAT_RETURN_IF_ERROR(CheckMessage(message, absl::StrCat("chat.messages[", i, "]")));
    bytes += message.role().size() + message.content().size() + message.tool_calls_json().size() +
             message.tool_call_id().size() + message.name().size();
  }
  return CheckBytes("chat.messages", bytes, MaxPromptBytes(model.context_length));
}

// So that walking the messages for unknown fields is bounded too.
absl::Status CheckMessageCount(const v1::ChatPrompt& chat) {
  return CheckCount("chat.messages", chat.messages_size(), kMaxMessages);
}

absl::Status CheckPrompt(const v1::GenerateRequest& request, const ServedModel& model) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      return CheckBytes("text", request.text().size(), MaxPromptBytes(model.context_length));
    case v1::GenerateRequest::kTokenIds: {
      const auto& ids = request.token_ids().ids();
      if (ids.empty()) return EmptyPrompt();
      if (ids.size() >= model.context_length) return TooLong("token_ids.ids", ids.size(), model);
      return CheckTokenIds("token_ids.ids", ids, model);
    }
    case v1::GenerateRequest::kChat:
      return CheckChat(request.chat(), model);
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return InvalidField("prompt", "one of text, token_ids and chat is needed");
}

absl::Status CheckLogitBias(const v1::SamplingParams& sampling, const ServedModel& model) {
  QANAT_RETURN_IF_ERROR(
      CheckCount("sampling.logit_bias", static_cast<int64_t>(sampling.logit_bias().size()), kMaxLogitBias));
  for (const auto& [id, bias] : sampling.logit_bias()) {
    QANAT_RETURN_IF_ERROR(CheckTokenId("sampling.logit_bias", id, model));
    QANAT_RETURN_IF_ERROR(CheckClosed("sampling.logit_bias", bias, -100, 100));
  }
  return absl::OkStatus();
}

absl::Status CheckConstraint(const v1::Constraint& constraint) {
  constexpr char kField[] = "sampling.constraint";
  switch (constraint.kind_case()) {
    case v1::Constraint::kJsonSchema:
      return CheckBytes(kField, constraint.json_schema().size(), kMaxConstraintBytes);
    case v1::Constraint::kJsonObject:
      return absl::OkStatus();
    case v1::Constraint::kRegex:
      return CheckBytes(kField, constraint.regex().size(), kMaxConstraintBytes);
    case v1::Constraint::kChoices: {
      const auto& values = constraint.choices().values();
      if (values.empty()) return InvalidField(kField, "no choices");
      QANAT_RETURN_IF_ERROR(CheckCount(kField, values.size(), kMaxConstraintChoices));
      size_t bytes = 0;
      for (const std::string& value : values) bytes += value.size();
      return CheckBytes(kField, bytes, kMaxConstraintBytes);
    }
    case v1::Constraint::KIND_NOT_SET:
      break;
  }
  return InvalidField(kField, "names no kind");
}

absl::Status CheckSampling(const v1::SamplingParams& s, const ServedModel& model) {
  if (s.has_temperature()) {
    QANAT_RETURN_IF_ERROR(CheckClosed("sampling.temperature", s.temperature(), 0, 2));
  }
  if (s.has_top_k() && s.top_k() < 1) {
    return InvalidField("sampling.top_k", absl::StrCat("must be at least 1, got ", s.top_k()));
  }
  if (s.has_top_p()) QANAT_RETURN_IF_ERROR(CheckHalfOpen("sampling.top_p", s.top_p(), 0, 1));
  if (s.has_min_p()) QANAT_RETURN_IF_ERROR(CheckClosed("sampling.min_p", s.min_p(), 0, 1));
  if (s.has_presence_penalty()) {
    QANAT_RETURN_IF_ERROR(CheckClosed("sampling.presence_penalty", s.presence_penalty(), -2, 2));
  }
  if (s.has_frequency_penalty()) {
    QANAT_RETURN_IF_ERROR(CheckClosed("sampling.frequency_penalty", s.frequency_penalty(), -2, 2));
  }
  if (s.has_repetition_penalty()) {
    QANAT_RETURN_IF_ERROR(CheckHalfOpen("sampling.repetition_penalty", s.repetition_penalty(), 0, 10));
  }
  if (s.has_n()) QANAT_RETURN_IF_ERROR(CheckClosed("sampling.n", s.n(), 1, kMaxChoices));
  QANAT_RETURN_IF_ERROR(CheckLogitBias(s, model));
  QANAT_RETURN_IF_ERROR(
      CheckCount("sampling.allowed_token_ids", s.allowed_token_ids_size(), kMaxAllowedTokens));
  QANAT_RETURN_IF_ERROR(CheckTokenIds("sampling.allowed_token_ids", s.allowed_token_ids(), model));
  return s.has_constraint() ? CheckConstraint(s.constraint()) : absl::OkStatus();
}

absl::Status CheckStopping(const v1::StoppingParams& stopping, const ServedModel& model) {
  if (stopping.has_max_tokens() && stopping.max_tokens() < 1) {
    return InvalidField("stopping.max_tokens",
                        absl::StrCat("must be at least 1, got ", stopping.max_tokens()));
  }
  if (stopping.has_min_tokens()) {
    const int32_t most = stopping.has_max_tokens() ? stopping.max_tokens() : model.context_length;
    QANAT_RETURN_IF_ERROR(CheckClosed("stopping.min_tokens", stopping.min_tokens(), 0, most));
  }
  QANAT_RETURN_IF_ERROR(CheckCount("stopping.stop", stopping.stop_size(), kMaxStops));
  for (int i = 0; i < stopping.stop_size(); ++i) {
    const std::string field = absl::StrCat("stopping.stop[", i, "]");
    if (stopping.stop(i).empty()) return InvalidField(field, "is empty");
    QANAT_RETURN_IF_ERROR(CheckBytes(field, stopping.stop(i).size(), kMaxStopBytes));
  }
  QANAT_RETURN_IF_ERROR(
      CheckCount("stopping.stop_token_ids", stopping.stop_token_ids_size(), kMaxStopTokens));
  return CheckTokenIds("stopping.stop_token_ids", stopping.stop_token_ids(), model);
}

absl::Status CheckOutput(const v1::OutputOptions& output) {
  if (output.has_logprobs()) {
    QANAT_RETURN_IF_ERROR(CheckClosed("output.logprobs", output.logprobs(), 0, kMaxLogprobs));
  }
  if (output.has_prompt_logprobs()) {
    QANAT_RETURN_IF_ERROR(CheckClosed("output.prompt_logprobs", output.prompt_logprobs(), 0, kMaxLogprobs));
  }
  if (!v1::Delivery_IsValid(output.delivery())) {
    return InvalidField("output.delivery", absl::StrCat(output.delivery(), " names no delivery"));
  }
  return absl::OkStatus();
}

// What is in range and asks for something this build cannot do. A field set to the value that does nothing is
// honoured by doing nothing.
absl::Status CheckHonoured(const v1::GenerateRequest& request) {
  const v1::SamplingParams& sampling = request.sampling();
  if (sampling.has_constraint()) return UnhonouredField("sampling.constraint");
  return absl::OkStatus();
}

absl::StatusOr<Priority> ToPriority(v1::Priority priority) {
  switch (priority) {
    case v1::PRIORITY_INTERACTIVE:
      return Priority::kInteractive;
    case v1::PRIORITY_UNSPECIFIED:
    case v1::PRIORITY_STANDARD:
      return Priority::kStandard;
    case v1::PRIORITY_BATCH:
      return Priority::kBatch;
    default:
      return InvalidField("priority", absl::StrCat(static_cast<int>(priority), " names no priority"));
  }
}

std::vector<TokenId> Ascending(const google::protobuf::RepeatedField<int32_t>& ids) {
  std::vector<TokenId> out(ids.begin(), ids.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void TakeSampling(const v1::SamplingParams& sampling, const ServedModel& model, GenerateParams& params) {
  if (sampling.has_temperature()) params.temperature = sampling.temperature();
  if (sampling.has_top_k() && sampling.top_k() < model.vocab_size) params.top_k = sampling.top_k();
  if (sampling.has_top_p()) params.top_p = sampling.top_p();
  params.min_p = sampling.min_p();
  params.presence_penalty = sampling.presence_penalty();
  params.frequency_penalty = sampling.frequency_penalty();
  if (sampling.has_repetition_penalty()) params.repetition_penalty = sampling.repetition_penalty();
  params.logit_bias.assign(sampling.logit_bias().begin(), sampling.logit_bias().end());
  std::sort(params.logit_bias.begin(), params.logit_bias.end());
  params.allowed_token_ids = Ascending(sampling.allowed_token_ids());
  params.seed = sampling.seed();
  if (sampling.has_n()) params.n = sampling.n();
}

void TakeStopping(const v1::StoppingParams& stopping, GenerateParams& params) {
  params.max_tokens = stopping.max_tokens();
  params.min_tokens = stopping.min_tokens();
  params.stop.assign(stopping.stop().begin(), stopping.stop().end());
  params.stop_token_ids = Ascending(stopping.stop_token_ids());
  params.ignore_eos = stopping.ignore_eos();
  params.include_stop = stopping.include_stop();
}

void TakeOutput(const v1::OutputOptions& output, GenerateParams& params) {
  params.return_token_ids = output.token_ids();
  if (output.has_logprobs()) params.logprobs = output.logprobs();
  if (output.has_prompt_logprobs()) params.prompt_logprobs = output.prompt_logprobs();
  params.final_only = output.delivery() == v1::DELIVERY_FINAL_ONLY;
}

absl::Status CheckFields(const v1::GenerateRequest& request, const ServedModel& model) {
  QANAT_RETURN_IF_ERROR(CheckMessageCount(request.chat()));
  QANAT_RETURN_IF_ERROR(CheckNoUnknownFields(request));
  QANAT_RETURN_IF_ERROR(CheckModel(request.model(), model));
  QANAT_RETURN_IF_ERROR(CheckBytes("request_id", request.request_id().size(), kMaxRequestIdBytes));
  QANAT_RETURN_IF_ERROR(CheckBytes("cache_salt", request.cache_salt().size(), kMaxCacheSaltBytes));
  QANAT_RETURN_IF_ERROR(CheckPrompt(request, model));
  QANAT_RETURN_IF_ERROR(CheckSampling(request.sampling(), model));
  QANAT_RETURN_IF_ERROR(CheckStopping(request.stopping(), model));
  return CheckOutput(request.output());
}

}  // namespace

absl::StatusOr<GenerateParams> ValidateGenerate(const v1::GenerateRequest& request, const ServedModel& model,
                                                uint64_t drawn_seed) {
  QANAT_RETURN_IF_ERROR(CheckFields(request, model));
  QANAT_ASSIGN_OR_RETURN(const Priority priority, ToPriority(request.priority()));
  QANAT_RETURN_IF_ERROR(CheckHonoured(request));

  GenerateParams params;
  params.request_id = request.request_id();
  TakeSampling(request.sampling(), model, params);
  if (!request.sampling().has_seed()) params.seed = drawn_seed;
  TakeStopping(request.stopping(), params);
  TakeOutput(request.output(), params);
  params.priority = priority;
  params.cache_salt = request.cache_salt();
  params.bypass_prefix_cache = request.bypass_prefix_cache();
  return params;
}

absl::Status CheckMayDraw(const GenerateParams& params, const std::vector<TokenId>& eog) {
  if (params.min_tokens == 0 || params.allowed_token_ids.empty()) return absl::OkStatus();
  const auto ends = [&](TokenId id) {
    return std::find(eog.begin(), eog.end(), id) != eog.end() ||
           std::binary_search(params.stop_token_ids.begin(), params.stop_token_ids.end(), id);
  };
  if (!std::all_of(params.allowed_token_ids.begin(), params.allowed_token_ids.end(), ends)) {
    return absl::OkStatus();
  }
  return InvalidField("stopping.min_tokens",
                      "every allowed token ends the answer, and none of those comes before it");
}

absl::Status ValidateTokenize(const v1::TokenizeRequest& request, const ServedModel& model) {
  QANAT_RETURN_IF_ERROR(CheckMessageCount(request.chat()));
  QANAT_RETURN_IF_ERROR(CheckNoUnknownFields(request));
  QANAT_RETURN_IF_ERROR(CheckModel(request.model(), model));
  switch (request.input_case()) {
    case v1::TokenizeRequest::kText:
      return CheckBytes("text", request.text().size(), MaxPromptBytes(model.context_length));
    case v1::TokenizeRequest::kChat:
      return CheckChat(request.chat(), model);
    case v1::TokenizeRequest::INPUT_NOT_SET:
      break;
  }
  return InvalidField("input", "one of text and chat is needed");
}

absl::Status ValidateDetokenize(const v1::DetokenizeRequest& request, const ServedModel& model) {
  QANAT_RETURN_IF_ERROR(CheckNoUnknownFields(request));
  QANAT_RETURN_IF_ERROR(CheckModel(request.model(), model));
  QANAT_RETURN_IF_ERROR(
      CheckCount("token_ids", request.token_ids_size(), MaxDetokenizeIds(model.context_length)));
  return CheckTokenIds("token_ids", request.token_ids(), model);
}

absl::StatusOr<int32_t> ClipMaxTokens(const GenerateParams& params, const std::vector<TokenId>& prompt,
                                      const ServedModel& model) {
  if (prompt.empty()) return EmptyPrompt();
  const auto tokens = static_cast<int64_t>(prompt.size());
  if (tokens >= model.context_length) return TooLong("prompt", tokens, model);
  for (const TokenId id : prompt) QANAT_RETURN_IF_ERROR(CheckTokenId("prompt", id, model));

  const auto room = static_cast<int32_t>(model.context_length - tokens);
  const int32_t max_tokens = params.max_tokens == 0 ? room : std::min(params.max_tokens, room);
  const int64_t needed =
      PoolTokens({.prompt = tokens, .output = max_tokens, .choices = params.n}, model.block_size);
  if (needed > model.pool_tokens) {
    return WithReason(InvalidField("stopping.max_tokens",
                                   absl::StrCat("prompt and output may reach ", needed,
                                                " tokens; the largest pool holds ", model.pool_tokens)),
                      "NEVER_FITS");
  }
  return max_tokens;
}

}  // namespace qanat::api
