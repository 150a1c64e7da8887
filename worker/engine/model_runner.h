// The engine's view of a model on a device: a batch of token spans goes in, one sampled token a sequence
// comes out. Real (worker/model), simulated (worker/sim) and fake (tests/fakes) ones exist.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/step_model.h"
#include "worker/sampling/params.h"

namespace qanat::engine {

// Of rows that are computed for the time they take (padded_runner.h): whatever their blocks hold, and nobody
// looks at what they draw.
inline constexpr SequenceId kPaddingId{};

// In place of a token that is not known yet: the one that the sequence's latest row, in a step still in
// flight when this one is launched, draws. A device finds it where that row left it.
inline constexpr TokenId kDrawnBefore = -1;

// One sequence's share of a step. Spans and pointers are valid until Collect where depth() is 1; else until
// Launch returns, and a runner copies what it needs later.
struct BatchSequence {
  SequenceId id{};
  // Position in the sequence of tokens[0]; keys and values of all earlier positions are in the cache.
  int32_t first_position = 0;
  absl::Span<const TokenId> tokens;  // or kDrawnBefore alone
  // Physical blocks of positions 0 .. first_position + tokens.size() - 1, in order.
  absl::Span<const int32_t> block_table;
  // Draw a token from the logits that follow the last of `tokens` (before its drafts).
  bool sample = false;
  // The last of `tokens` that are drafts: guesses at what is drawn, each after the token before it. As long
  // as a guess is what was drawn the next draw follows. Only where `sample` is set and `rules` is not.
  int32_t num_drafts = 0;
  sampling::Params params;
  // What changes the logits before the draw, and the tokens that penalties go by. Null: nothing changes them.
  const sampling::LogitRules* rules = nullptr;
  const sampling::TokenCounts* counts = nullptr;  // not null when `rules` is not
  sampling::DrawKey draw;
  // Score the drawn token, with so many of the most likely in its place.
  std::optional<int32_t> logprobs = {};
  // Tokens of the prompt to score: scored[i] by the logits that follow tokens[first_scored + i], with so many
  // of the most likely. A span like the others.
  absl::Span<const TokenId> scored = {};
  int32_t first_scored = 0;
  int32_t scored_logprobs = 0;
};

struct ModelBatch {
  std::vector<BatchSequence> sequences;
  int32_t num_tokens = 0;  // over all sequences
};

// What the step model prices a batch by.
inline StepShape ShapeOf(const ModelBatch& batch) {
  StepShape shape;
  shape.sequences = static_cast<int64_t>(batch.sequences.size());
  shape.tokens = batch.num_tokens;
  for (const BatchSequence& sequence : batch.sequences) {
    const auto tokens = static_cast<int64_t>(sequence.tokens.size());
    const int64_t context = sequence.first_position + tokens;
    shape.context_tokens += context;
    if (tokens > 1) shape.chunk_attention += tokens * context;
  }
  return shape;
}

// What one sequence of the batch got.
struct SequenceOutput {
  enum class Kind : uint8_t {
    kNone,    // `sample` was false
    kToken,   // `token` was drawn
    kFailed,  // this row alone failed: non-finite logits or an injected fault
  };
  Kind kind = Kind::kNone;
  TokenId token = -1;
  // Drawn after `token`: the first while the first draft was right, and so on. More tokens than drafts never
  // are.
  std::vector<TokenId> more = {};
  std::vector<sampling::ScoredToken> drawn = {};   // of `token` and `more`, if `logprobs` was set
  std::vector<sampling::ScoredToken> scored = {};  // parallel to BatchSequence::scored; not of kFailed
};

struct StepOutput {
  // Parallel to ModelBatch::sequences.
  std::vector<SequenceOutput> sequences;
};

// What: runs steps. Threads: the engine thread only. Errors: none at the level of a step; a row that fails
// says so in its output. At most depth() launched steps are uncollected; they run and are collected in order
// of launch: a step reads what those before it wrote.
class ModelRunner {
 public:
  using Handle = uint64_t;
  virtual ~ModelRunner() = default;

  // REQUIRES: batch is not empty; every span of tokens at least one; at most EngineOptions::max_logit_rows()
  // rows are drawn from or scored; blocks are the sequence's own or shared full
  // ones.
  virtual Handle Launch(const ModelBatch& batch) = 0;
  virtual StepOutput Collect(Handle handle) = 0;
  // Steps that may be in flight at once: 1 on a CPU, where overlap would only steal a core.
  virtual int depth() const { return 1; }
};

}  // namespace qanat::engine
