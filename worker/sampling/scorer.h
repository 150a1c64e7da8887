// Log-probabilities of tokens in a row of logits.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "worker/sampling/params.h"

namespace qanat::sampling {

// The rule:
//   w_i   as for a draw (sampler.h) at temperature 1, from the raw row: before penalties, bias and masks
//   total = sum of w_i, an integer: exact in any order
//   logprob_i = logit_i - largest logit - ln(total / 2^32), in double, rounded to float; never above 0
// So equal rows give equal bits whatever else is served. Against a softmax without rounding ln(total) is off
// by at most the vocabulary's size * 2^-33 and 2e-7: below 1e-5 for 49,152 tokens.
//
// What: the arithmetic above. Owns scratch for one row, kept for its capacity. Threads: one. Errors: nothing
// when a logit is NaN or infinite. About 35 us for 49,152 logits, 40 us with the 20 most likely
// (AVX-512, one core of 2.3 GHz).
class Scorer {
 public:
  // `token` and the `num_likeliest` most likely tokens, best first, equal ones by the lowest id. REQUIRES:
  // token is below the number of logits.
  std::optional<ScoredToken> Score(absl::Span<const float> logits, TokenId token, int32_t num_likeliest);

 private:
  // The `count` largest of the row, by `maxima_`.
  std::vector<TokenLogprob> Likeliest(absl::Span<const float> logits, size_t count);

  std::vector<float> maxima_;
  std::vector<float> largest_maxima_;
  std::vector<int64_t> weights_;
  std::vector<int64_t> block_max_;
  std::vector<int64_t> block_sum_;
  std::vector<std::pair<float, TokenId>> candidates_;
};

}  // namespace qanat::sampling
