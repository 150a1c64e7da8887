#include "worker/sampling/logit_rules.h"

#include <algorithm>

namespace qanat::sampling {
namespace {

constexpr float kBound = 0x1p+126f;

float Bounded(float logit) { return std::clamp(logit, -kBound, kBound); }

void PenalizeRepetition(const RuleInput& input, absl::Span<float> row) {
  const float penalty = input.rules.repetition_penalty;
  if (penalty == 1) return;
  for (const auto& [id, count] : input.counts) {
    float& logit = row[id];
    logit = Bounded(logit > 0 ? logit / penalty : logit * penalty);
  }
}

void PenalizePresence(const RuleInput& input, absl::Span<float> row) {
  if (input.rules.presence_penalty == 0) return;
  for (const auto& [id, count] : input.counts) {
    if (count > 0) row[id] = Bounded(row[id] - input.rules.presence_penalty);
  }
}

void PenalizeFrequency(const RuleInput& input, absl::Span<float> row) {
  if (input.rules.frequency_penalty == 0) return;
  for (const auto& [id, count] : input.counts) {
    const float penalty = input.rules.frequency_penalty * static_cast<float>(count);
    if (count > 0) row[id] = Bounded(row[id] - penalty);
  }
}

void AddBias(const RuleInput& input, absl::Span<float> row) {
  for (const auto& [id, bias] : input.rules.bias) row[id] = Bounded(row[id] + bias);
}

void MaskOthers(const RuleInput& input, absl::Span<float> row) {
  if (input.rules.allowed.empty()) return;
  auto from = row.begin();
  for (const TokenId id : input.rules.allowed) {
    std::fill(from, row.begin() + id, kMasked);
    from = row.begin() + id + 1;
  }
  std::fill(from, row.end(), kMasked);
}

void MaskLate(const RuleInput& input, absl::Span<float> row) {
  if (input.position >= input.rules.min_tokens) return;
  for (const TokenId id : input.rules.late) row[id] = kMasked;
}

// In the contract's order.
constexpr void (*kRules[])(const RuleInput&, absl::Span<float>) = {
    PenalizeRepetition, PenalizePresence, PenalizeFrequency, AddBias, MaskOthers, MaskLate,
};

}  // namespace

absl::Span<const float> LogitShaper::Shape(absl::Span<const float> logits, const RuleInput& input) {
  row_.assign(logits.begin(), logits.end());
  for (const auto rule : kRules) rule(input, absl::MakeSpan(row_));
  return row_;
}

}  // namespace qanat::sampling
