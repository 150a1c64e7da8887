#include "worker/engine/engine_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "worker/engine/scheduler.h"

namespace qanat::engine {
namespace {

absl::Status AtLeast(const char* flag, int64_t value, int64_t minimum, const char* why = "") {
  if (value >= minimum) return absl::OkStatus();
  return InvalidField(flag, absl::StrCat("must be at least ", minimum, why, ", got ", value));
}

absl::Status Within(const char* flag, int64_t value, int64_t maximum) {
  if (value >= 1 && value <= maximum) return absl::OkStatus();
  return InvalidField(flag, absl::StrCat("must be between 1 and ", maximum, ", got ", value));
}

}  // namespace

int32_t EngineOptions::max_logit_rows() const {
  // Drafts run only while few sequences do, and beside no chunk of a prompt.
  constexpr int32_t kMore = kMaxDraftingSequences * (PromptLookup::kMaxDrafts + 1);
  return std::min(max_seqs + kMore, max_batch_tokens);
}

absl::Status EngineOptions::Validate() const {
  QANAT_RETURN_IF_ERROR(AtLeast("--context-length", context_length, kMinContext));
  QANAT_RETURN_IF_ERROR(Within("--block-size", block_size, kMaxBlockSize));
  QANAT_RETURN_IF_ERROR(Within("--kv-blocks", num_blocks, max_blocks()));
  QANAT_RETURN_IF_ERROR(Within("--max-seqs", max_seqs, kMaxBatchTokens));
  QANAT_RETURN_IF_ERROR(Within("--max-batch-tokens", max_batch_tokens, kMaxBatchTokens));
  QANAT_RETURN_IF_ERROR(AtLeast("--max-batch-tokens", max_batch_tokens, max_seqs,
                                " (--max-seqs: every running sequence gets its token in every step)"));
  QANAT_RETURN_IF_ERROR(AtLeast("--chunk-tokens", chunk_tokens, 1));
  QANAT_RETURN_IF_ERROR(Within("--queue-requests", queue_requests, kMaxQueueRequests));
  QANAT_RETURN_IF_ERROR(AtLeast("--queue-tokens", queue_tokens, context_length,
                                " (the context: any prompt fits an empty queue)"));
  if (kv_layout == kv::Layout::kContiguous && prefix_cache) {
    return InvalidField("--kv", "contiguous shares no block: it needs --prefix-cache=off");
  }
  for (const Duration due : class_defaults) {
    QANAT_RETURN_IF_ERROR(AtLeast("--class-defaults", due.count(), 0));
  }
  return absl::OkStatus();
}

}  // namespace qanat::engine
