// The two passes over a row of logits, vectorised. Blocks of kBlock ids keep what later steps need to skip
// most of the row.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace qanat::sampling {

inline constexpr int kBlock = 64;
// The weight of the most likely token: 2^32.
inline constexpr int64_t kOne = int64_t{1} << 32;

constexpr int NumBlocks(int size) { return (size + kBlock - 1) / kBlock; }

// maxima[b] is the largest logit of block b; a zero there is +0. False when a logit is NaN or infinite: the
// maxima are then worth nothing. REQUIRES: maxima.size() == NumBlocks(logits.size()).
bool FindMaxima(absl::Span<const float> logits, absl::Span<float> maxima);

// weights[i] = rint(2^32 * 2^y), y = (logits[i] - max) * scale, in these steps and no others:
//   y       two float operations, each rounded; below -64 it is taken as -64
//   t, n, f t = y + 1.5 * 2^23, n = t - 1.5 * 2^23 (y rounded to the nearest even integer), f = y - n (exact)
//   p       fma(f, fma(f, fma(f, fma(f, fma(f, fma(f, c6, c5), c4), c3), c2), c1), 1) in float, the constants
//   of the
//           kernels' exp2: 2^f within 1.2e-7, and 1 for f = 0
//   weight  p * 2^(32 + n), exact in double, rounded half to even by adding 1.5 * 2^52
// The same bits with and without instructions for vectors or fma. Also the largest weight and the sum of
// every block. REQUIRES: finite logits, max their largest; scale > 0; weights.size() == logits.size(), the
// rest NumBlocks of it.
void Weigh(absl::Span<const float> logits, float max, float scale, absl::Span<int64_t> weights,
           absl::Span<int64_t> block_max, absl::Span<int64_t> block_sum);

}  // namespace qanat::sampling
