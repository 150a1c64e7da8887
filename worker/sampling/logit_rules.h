// What penalties, biases and masks make of a row of logits.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "worker/sampling/params.h"

namespace qanat::sampling {

// The logit of a token that must not be drawn: it weighs nothing at any temperature beside one that may be.
inline constexpr float kMasked = std::numeric_limits<float>::lowest();

// What the rules look at beside the row.
struct RuleInput {
  const LogitRules& rules;
  const TokenCounts& counts;
  int32_t position;  // of the token to be drawn, in the output
};

// The rules, in order, each a float operation of its own, rounded:
//   repetition  x > 0 ? x / penalty : x * penalty, for tokens of the prompt and the output
//   presence    x - penalty, for tokens of the output
//   frequency   x - penalty * count, the product rounded first
//   bias        x + bias
//   (a result beyond +-2^126 is that bound, so that none of them turns infinite or masked)
//   allowed     kMasked, for every token that is not allowed
//   late        kMasked, for the tokens that may not come at this position
// So each token's result depends on its own logit and count alone.
//
// What: applies them to a copy of the row. Owns that copy, kept for its capacity. Threads: one. Errors: none.
// Time: copying the row, and the distinct tokens that a rule names.
class LogitShaper {
 public:
  // The row is valid until the next call. REQUIRES: finite logits; every id of the input is below their
  // number.
  absl::Span<const float> Shape(absl::Span<const float> logits, const RuleInput& input);

 private:
  std::vector<float> row_;
};

}  // namespace qanat::sampling
