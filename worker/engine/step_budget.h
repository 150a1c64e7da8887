// What a step may still take on while it is being planned.
#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/step_model.h"

namespace qanat::engine {

// What: a bound on a step's tokens, and on its predicted time while sequences decode in it, so that a long
// prompt does not hold up the text of others. Owns the shape of the step so far. Threads: the engine thread.
// Errors: none.
class StepBudget {
 public:
  // A chunk of no more tokens is computed in any case, lest a prefill beside many decodes never moves.
  static constexpr int32_t kLeastChunk = 16;

  StepBudget() = default;
  // `target` 0, or a model of zeros (nothing measured yet): no bound on time. `model` is copied.
  StepBudget(int32_t tokens, Duration target, const StepModel& model);

  // A sequence computes `tokens` more tokens, the last of which reads `context` keys.
  void Take(int32_t tokens, int64_t context) { Add(tokens, context, 1); }
  void GiveBack(int32_t tokens, int64_t context) { Add(tokens, context, -1); }

  // Of a chunk of `wanted` tokens that begins behind `first` others, how many the budget has room for. The
  // first chunk of a step gets at least kLeastChunk, if there are tokens; a later one may get nothing.
  int32_t Fit(int32_t wanted, int64_t first) const;

  // Of `wanted` drafts behind a row's one token, which reads `context` keys, how many. A step that is late
  // already takes those that cost next to nothing, such as what its weights are read for anyway.
  int32_t FitDrafts(int32_t wanted, int64_t context) const;
  // REQUIRES: the row was taken.
  void TakeDrafts(int32_t drafts, int64_t context);

  int32_t tokens() const { return tokens_; }  // left

 private:
  void Add(int32_t tokens, int64_t context, int32_t sign);
  bool InTime(int32_t tokens, int64_t first) const;
  StepShape WithDrafts(int32_t drafts, int64_t context) const;

  int32_t tokens_ = 0;
  double target_us_ = 0;  // 0: none
  StepModel model_;
  StepShape shape_;
  int32_t decodes_ = 0;
  int32_t chunks_ = 0;
};

}  // namespace qanat::engine
