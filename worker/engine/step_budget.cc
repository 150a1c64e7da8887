#include "worker/engine/step_budget.h"

#include <algorithm>

#include "common/base/units.h"

namespace qanat::engine {
namespace {

// How much longer drafts may make a step that is late without them.
constexpr double kDraftsMayCost = 1.1;

}  // namespace

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

int32_t StepBudget::Fit(int32_t wanted, int64_t first) const {
  wanted = std::min(wanted, tokens_);
  if (wanted <= 0) return 0;
  if (target_us_ == 0 || decodes_ == 0 || InTime(wanted, first)) return wanted;
  // The longest chunk that is in time; more tokens never take less.
  int32_t fits = chunks_ == 0 ? std::min(wanted, kLeastChunk) : 0;
  for (int32_t too_many = wanted; too_many - fits > 1;) {
    const int32_t middle = fits + (too_many - fits) / 2;
    (InTime(middle, first) ? fits : too_many) = middle;
  }
  return fits;
}

StepShape StepBudget::WithDrafts(int32_t drafts, int64_t context) const {
  StepShape shape = shape_;
  shape.tokens += drafts;
  shape.context_tokens += drafts;
  shape.chunk_attention += int64_t{drafts + 1} * (context + drafts);
  return shape;
}

int32_t StepBudget::FitDrafts(int32_t wanted, int64_t context) const {
  int32_t fits = std::max(0, std::min(wanted, tokens_));
  if (target_us_ == 0) return fits;
  const double limit = std::max(target_us_, kDraftsMayCost * model_.PredictUs(shape_));
  while (fits > 0 && model_.PredictUs(WithDrafts(fits, context)) > limit) --fits;
  return fits;
}

void StepBudget::TakeDrafts(int32_t drafts, int64_t context) {
  tokens_ -= drafts;
  shape_ = WithDrafts(drafts, context);
}

}  // namespace qanat::engine
