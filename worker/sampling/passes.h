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

// Weights sorted into buckets by their leading bits: a heavier weight is never in a lower bucket.
inline constexpr int kBucketBits = 5;
inline constexpr int kNumBuckets = (32 << kBucketBits) + 2;
// buckets[i] of weights[i], each in [0, 2^32]; 0 is alone in bucket 0. REQUIRES: at most kBlock weights.
void FindBuckets(absl::Span<const int64_t> weights, absl::Span<uint16_t> buckets);

// Sets the weights of one block that are below `weight` to 0, and those equal to it but for the first `ties`;
// takes off `ties` those that it left. REQUIRES: at most kBlock weights; weight > 0.
void CutBlock(absl::Span<int64_t> weights, int64_t weight, int64_t& ties, int64_t& block_max,
              int64_t& block_sum);

namespace internal {

// The functions above for one set of instructions: all give the same bits. The above use the last that is
// supported.
struct PassSet {
  const char* name;
  bool (*find_maxima)(const float* logits, int size, float* maxima);
  void (*weigh)(const float* logits, int size, float max, float scale, int64_t* weights, int64_t* block_max,
                int64_t* block_sum);
  void (*find_buckets)(const int64_t* weights, int size, uint16_t* buckets);
  void (*cut_block)(int64_t* weights, int size, int64_t weight, int64_t& ties, int64_t& block_max,
                    int64_t& block_sum);
};

// Those that this CPU has the instructions for; never empty.
absl::Span<const PassSet> SupportedPassSets();

}  // namespace internal
}  // namespace qanat::sampling
