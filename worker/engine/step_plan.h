// What one step computes: the scheduler's answer, the engine's order.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/sequence.h"
#include "worker/kv/pending_blocks.h"

namespace qanat::engine {

// The tokens of a running sequence from position `first` on, whose table has blocks for them and for its
// drafts.
struct PlannedRow {
  // Null once the sequence has stopped running while the row's step was in flight: what the row gives is
  // nobody's.
  Sequence* sequence;
  SequenceId id;
  int32_t first;
  int32_t num_tokens;
  bool draws;  // it computes the last known token, so the next one is drawn
  // Its token is the one that the sequence's latest row in flight draws: nobody knows it yet.
  bool follows = false;
  // Empty, or the last known token, which this row computes, and behind it guesses at what is drawn.
  std::vector<TokenId> drafted = {};
  std::vector<kv::PendingBlock> announced = {};  // once launched

  int32_t num_drafts() const { return drafted.empty() ? 0 : static_cast<int32_t>(drafted.size()) - 1; }
};

struct StepPlan {
  std::vector<PlannedRow> rows;  // a sequence has at most one
  int32_t preemptions = 0;
  // Of the sequences admitted for the first time:
  CountByPriority started{};   // how many
  int64_t started_tokens = 0;  // their prompts
  int32_t queried_tokens = 0;  // the prompts of those that may read the cache
  int32_t hit_tokens = 0;      // of these, found
};

}  // namespace qanat::engine
