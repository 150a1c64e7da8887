#include "worker/engine/step_budget.h"

#include <algorithm>

#include "common/base/units.h"

namespace qanat::engine {

StepBudget::StepBudget(int32_t tokens, Duration target, const StepModel& model)
    : tokens_(tokens), target_us_(model == StepModel() ? 0 : Seconds(target) * 1e6), model_(model) {}

void StepBudget::Add(int32_t tokens, int64_t context, int32_t sign) {
  tokens_ -= sign * tokens;
  (tokens == 1 ? decodes_ : chunks_) += sign;
  shape_.sequences += sign;
  shape_.tokens += int64_t{sign} * tokens;
  shape_.context_tokens += sign * context;
  if (tokens > 1) shape_.chunk_attention += sign * tokens * context;
}

bool StepBudget::InTime(int32_t tokens, int64_t first) const {
  const int64_t context = first + tokens;
  StepShape shape = shape_;
  ++shape.sequences;
  shape.tokens += tokens;
  shape.context_tokens += context;
  if (tokens > 1) shape.chunk_attention += tokens * context;
  return model_.PredictUs(shape) <= target_us_;
}

int32_t StepBudget::Fit(int32_t wanted, int64_t first, int32_t least) const {
  wanted = std::min(wanted, tokens_);
  if (wanted <= 0) return 0;
  if (target_us_ == 0 || decodes_ == 0 || InTime(wanted, first)) return wanted;
  // The longest chunk that is in time; more tokens never take less.
  int32_t fits = chunks_ == 0 ? std::min(wanted, least) : 0;
  for (int32_t too_many = wanted; too_many - fits > 1;) {
    const int32_t middle = fits + (too_many - fits) / 2;
    (InTime(middle, first) ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace qanat::engine
