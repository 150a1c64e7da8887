// Limits of the engine.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "worker/engine/batch_policy.h"
#include "worker/kv/placement.h"

namespace qanat::engine {

// What the limits may be set to. At most: far above what helps, and small enough for all sums of them. What
// memory they need is for whoever allocates it to refuse.
inline constexpr int32_t kMinContext = 2;  // a token to answer and one of the answer
inline constexpr int32_t kMaxBlockSize = 4096;
inline constexpr int32_t kMaxBlocks = 1 << 22;
inline constexpr int32_t kMaxPoolTokens = 1 << 28;
inline constexpr int32_t kMaxBatchTokens = 1 << 16;  // and sequences: each has its token in every step
inline constexpr int32_t kMaxQueueRequests = 1 << 20;

struct EngineOptions {
  int32_t context_length = 0;  // at most the model's
  int32_t block_size = 16;     // tokens
  int32_t num_blocks = 0;      // the pool
  int32_t max_batch_tokens = 512;
  int32_t max_seqs = 64;
  int32_t chunk_tokens = 256;
  int32_t queue_requests = 256;
  int64_t queue_tokens = 262144;
  Batching batching = Batching::kContinuous;
  kv::Layout kv_layout = kv::Layout::kPaged;
  bool prefix_cache = true;
  bool speculation = true;  // drafts by prompt lookup
  // By Priority: how long after its arrival a request counts as due when its own deadline is not earlier.
  std::array<Duration, 3> class_defaults = {std::chrono::seconds(1), std::chrono::seconds(10),
                                            std::chrono::minutes(10)};

  // What a step may be predicted to take while sequences decode in it; 0: as long as it takes.
  Duration inter_token_target = std::chrono::milliseconds(100);
  // A sequence that its reader keeps paused for so long is cancelled.
  Duration stall_limit = std::chrono::seconds(30);

  // Rows of logits that a step may ask for: one for each seat, and some more to check drafts and to score
  // prompts with.
  int32_t max_logit_rows() const;

  // The largest pool of blocks of this size.
  int32_t max_blocks() const { return std::min(kMaxBlocks, kMaxPoolTokens / block_size); }

  // Blocks that the model runner's arena must have behind the pool's.
  int32_t padding_blocks() const { return batching == Batching::kStatic ? max_seqs : 0; }

  // INVALID_ARGUMENT naming the flag that is out of range.
  absl::Status Validate() const;
};

}  // namespace qanat::engine
