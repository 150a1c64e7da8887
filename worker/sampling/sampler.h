// Draws a token from a row of logits, in integers: equal logits give equal tokens on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "worker/sampling/logit_rules.h"
#include "worker/sampling/params.h"

namespace qanat::sampling {

// The rule, which any other implementation has to follow to the bit:
//   scale  = float(double log2(e) / temperature)
//   w_i    = rint(2^32 * 2^((logit_i - largest logit) * scale)), as weigh.h rounds it; the best token's is
//   2^32 order  = by weight, the heaviest first, equal ones by id, the lowest first top_k  keeps the first k
//   of the order top_p  keeps the shortest beginning of the order whose sum is at least ceil(top_p * the sum
//   of what top_k kept) min_p  keeps those of at least ceil(min_p * 2^32) draw   t = floor(r * total / 2^64),
//   r being RandomBits of the key (random.h); the token is the first, by id among
//          those kept, at which the sum of weights exceeds t. Its probability is off by at most 2^-64.
// The logits are those that logit_rules.h makes of the row; without rules, the row's own.
// Products with top_p and min_p are exact, those numbers being read as the binary fractions that they are.
// Sums are integers, so the order of adding is free. Greedy (temperature below 1e-5, or top_k = 1): the
// largest logit, equal ones by the lowest id; -0 equals +0.
//
// What: the arithmetic above. Owns scratch for one row, kept for its capacity. Threads: one. Errors: no token
// when a logit of the row is NaN or infinite, or when the rules mask every token. Nothing is sorted: 49,152
// logits take about 8 us greedy, 35 us drawn from all or after a small top_k, 140 us after top_p (AVX-512,
// one core of 2.3 GHz).
class Sampler {
 public:
  // REQUIRES: logits is not empty; params and rules inside the bounds that params.h gives.
  std::optional<TokenId> Sample(absl::Span<const float> logits, const Params& params, const DrawKey& draw);
  // The same after `rules`; `counts` matter only if the rules penalize.
  std::optional<TokenId> Sample(absl::Span<const float> logits, const Params& params, const DrawKey& draw,
                                const LogitRules& rules, const TokenCounts& counts);

 private:
  // A beginning of the order: what is heavier than `weight`, and the first `ties` ids that weigh just that.
  struct Cut {
    int64_t weight;
    int64_t ties;
  };
  // What CutOf adds up until it has enough.
  enum class Measure : uint8_t { kCount, kSum };

  // False when a logit is NaN or infinite.
  bool FindBlockMaxima(absl::Span<const float> logits);
  // REQUIRES: FindBlockMaxima was called, max is the largest of maxima_.
  TokenId SampleFinite(absl::Span<const float> logits, float max, const Params& params, const DrawKey& draw);
  TokenId Largest(absl::Span<const float> logits, float max) const;
  TokenId Draw(uint64_t random) const;

  // Filters: weights of tokens that are not kept become 0.
  void KeepTopK(int64_t k);
  void KeepTopP(float top_p);
  void Keep(Cut cut);

  // The shortest beginning of the order that measures at least `target`; all of it when all of it measures
  // less. Tokens lighter than `floor` are not among it, which the caller knows.
  Cut CutOf(Measure measure, int64_t target, int64_t floor);
  // The same among the weights in scratch_, in front of which the order measures `above` already.
  Cut CutOfScratch(Measure measure, int64_t target, int64_t above);

  absl::Span<int64_t> Block(size_t block);
  int64_t TotalWeight() const;

  LogitShaper shaper_;
  // Of one row. A block's weights count only while its block_max_ is not 0.
  std::vector<float> maxima_;
  std::vector<int64_t> weights_;
  std::vector<int64_t> block_max_;
  std::vector<int64_t> block_sum_;
  std::vector<int64_t> histogram_;
  std::vector<int64_t> scratch_;
};

}  // namespace qanat::sampling
