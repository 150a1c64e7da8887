// Generate: the one validator and the one conversion between the public messages and plain structs.
//
// Both router and worker validate: a router may be of another version than its worker. The order is: cheap
// checks of every bound before anything is allocated for it, then encoding of the prompt, then the checks
// that need the number of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/text/tokenizer.h"
#include "qanat/v1/inference.pb.h"

namespace qanat::text {
class ChatTemplate;
}

namespace qanat::api {

// What a server knows of the model it serves.
struct ServedModel {
  std::string id;
  int32_t context_length = 0;
  int32_t vocab_size = 0;
  int32_t block_size = 16;
  int64_t pool_tokens = 0;  // the largest worker's pool, in tokens
};

enum class Priority : uint8_t { kInteractive, kStandard, kBatch };

// A Generate request after the cheap checks: every field in range, defaults filled in, the seed drawn.
struct GenerateParams {
  std::string request_id;
  float temperature = 1.0f;
  int32_t top_k = 0;  // 0: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;
  std::vector<std::pair<TokenId, float>> logit_bias;  // ascending, each id once
  std::vector<TokenId> allowed_token_ids;             // ascending, each id once; empty: all
  uint64_t seed = 0;
  int32_t n = 1;           // choices
  int32_t max_tokens = 0;  // 0: up to the context length; otherwise not yet clipped
  int32_t min_tokens = 0;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop = false;
  bool return_token_ids = false;
  std::optional<int32_t> logprobs;
  std::optional<int32_t> prompt_logprobs;
  bool final_only = false;
  Priority priority = Priority::kStandard;
  std::string cache_salt;
  bool bypass_prefix_cache = false;
};

// Checks every field that does not need the prompt's tokens. `drawn_seed` is used when the request has none.
// INVALID_ARGUMENT with the field's path ("sampling.top_p"); NOT_FOUND for another model; UNIMPLEMENTED for a
// field that is set and not honoured, or unknown (by number).
absl::StatusOr<GenerateParams> ValidateGenerate(const v1::GenerateRequest& request, const ServedModel& model,
                                                uint64_t drawn_seed);

// After ValidateGenerate: INVALID_ARGUMENT when all that may be drawn are ends, and min_tokens forbids those.
// `eog`: what ends an answer of the model.
absl::Status CheckMayDraw(const GenerateParams& params, const std::vector<TokenId>& eog);

// ValidateGenerate for the other calls that name a model: unknown fields, the model, sizes, ids.
absl::Status ValidateTokenize(const v1::TokenizeRequest& request, const ServedModel& model);
absl::Status ValidateDetokenize(const v1::DetokenizeRequest& request, const ServedModel& model);

// The token ids of the request's prompt. `chat_template` may be null: chat is then FAILED_PRECONDITION.
// Costly for long texts: run it on a task pool. REQUIRES: the request was validated.
absl::StatusOr<std::vector<TokenId>> EncodePrompt(const v1::GenerateRequest& request,
                                                  const text::Tokenizer& tokenizer,
                                                  const text::ChatTemplate* chat_template);
// The same for Tokenize.
absl::StatusOr<std::vector<TokenId>> EncodePrompt(const v1::TokenizeRequest& request,
                                                  const text::Tokenizer& tokenizer,
                                                  const text::ChatTemplate* chat_template);

// The text of ids, bytes that are no UTF-8 replaced. INVALID_ARGUMENT when it has more than
// kMaxDetokenizedBytes before that. REQUIRES: the request was validated.
absl::StatusOr<std::string> DecodeIds(const v1::DetokenizeRequest& request, const text::Tokenizer& tokenizer);

// Checks the encoded prompt (not empty, ids inside the vocabulary, shorter than the context, fits the pool)
// and returns max_tokens clipped to the context.
absl::StatusOr<int32_t> ClipMaxTokens(const GenerateParams& params, const std::vector<TokenId>& prompt,
                                      const ServedModel& model);

}  // namespace qanat::api
