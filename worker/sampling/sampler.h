// Draws a token from a row of logits, in integers: equal logits give equal tokens on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
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
// Products with top_p and min_p are exact, those numbers being read as the binary fractions that they are.
// Sums are integers, so the order of adding is free. Greedy (temperature below 1e-5, or top_k = 1): the
// largest logit, equal ones by the lowest id; -0 equals +0.
//
// What: the arithmetic above. Owns scratch for one row, kept for its capacity. Threads: one. Errors: no token
// when a logit is NaN or infinite. No full sort: about 10 us greedy and 30 us drawn for 49,152 logits with
// AVX-512.
class Sampler {
 public:
  // REQUIRES: logits is not empty; params inside the bounds that params.h gives.
  std::optional<TokenId> Sample(absl::Span<const float> logits, const Params& params, const DrawKey& draw);

 private:
  // A beginning of the order: what is heavier than `weight`, and the first `ties` ids that weigh just that.
  struct Cut {
    int64_t weight = 0;
    int64_t ties = 0;
  };

  TokenId Largest(absl::Span<const float> logits, float max) const;
  TokenId DrawFromAll(uint64_t random) const;
  TokenId DrawFromKept(uint64_t random) const;

  void KeepTopK(int64_t k);
  void KeepTopP(float top_p);
  void KeepAtLeast(int64_t weight);
  // Fills kept_ with the ids of at least `floor`, by id; returns their sum.
  int64_t Gather(int64_t floor);
  void Apply(Cut cut);

  Cut CutOfCount(int64_t count);
  Cut CutOfSum(int64_t sum);

  struct Weighted {
    int64_t weight;
    TokenId id;
  };

  // Of the whole row.
  std::vector<float> maxima_;
  std::vector<int64_t> weights_;
  std::vector<int64_t> block_max_;
  std::vector<int64_t> block_sum_;
  // What the filters have left, by id; meaningful once `gathered_`.
  std::vector<Weighted> kept_;
  bool gathered_ = false;
  std::vector<int64_t> scratch_;
};

}  // namespace qanat::sampling
