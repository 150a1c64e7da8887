#include "worker/sampling/passes.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace qanat::sampling {
namespace {

using internal::PassSet;

// The bodies are compiled once for every instruction set below; the compiler makes vectors of their loops.
#define QANAT_BODY [[gnu::always_inline]] inline

constexpr float kRoundFloat = 0x1.8p+23f;
constexpr double kRoundDouble = 0x1.8p+52;
constexpr float kC1 = 0x1.62e430p-1f;
constexpr float kC2 = 0x1.ebfbdcp-3f;
constexpr float kC3 = 0x1.c6aee8p-5f;
constexpr float kC4 = 0x1.3b2d4cp-7f;
constexpr float kC5 = 0x1.5f3e88p-10f;
constexpr float kC6 = 0x1.41fc40p-13f;

// Integers in the order of the floats they are made of, so that a maximum needs no rule for NaN.
QANAT_BODY int32_t OrderedBits(float x) {
  const int32_t bits = std::bit_cast<int32_t>(x + 0.0f);  // -0 becomes +0
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

QANAT_BODY float FromOrderedBits(int32_t key) {
  return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff));
}

// True when none of the `size` logits is NaN or infinite.
QANAT_BODY bool MaximumOfBlock(const float* logits, int size, float& maximum) {
  int32_t best = std::numeric_limits<int32_t>::min();
  int32_t not_finite = 0;
  for (int i = 0; i < size; ++i) {
    const int32_t key = OrderedBits(logits[i]);
    not_finite |= (std::bit_cast<int32_t>(logits[i]) & 0x7f800000) == 0x7f800000 ? 1 : 0;
    best = std::max(best, key);
  }
  maximum = FromOrderedBits(best);
  return not_finite == 0;
}

QANAT_BODY bool MaximaBody(const float* logits, int size, float* maxima) {
  bool finite = true;
  int block = 0;
  for (; (block + 1) * kBlock <= size; ++block) {
    finite &= MaximumOfBlock(logits + block * kBlock, kBlock, maxima[block]);
  }
  const int rest = size - block * kBlock;
  if (rest > 0) finite &= MaximumOfBlock(logits + block * kBlock, rest, maxima[block]);
  return finite;
}

QANAT_BODY int64_t WeightOf(float logit, float max, float scale) {
  float y = (logit - max) * scale;
  y = y < -64.0f ? -64.0f : y;
  const float t = y + kRoundFloat;
  const float f = y - (t - kRoundFloat);
  float p = __builtin_fmaf(f, kC6, kC5);
  p = __builtin_fmaf(f, p, kC4);
  p = __builtin_fmaf(f, p, kC3);
  p = __builtin_fmaf(f, p, kC2);
  p = __builtin_fmaf(f, p, kC1);
  p = __builtin_fmaf(f, p, 1.0f);
  const int64_t n = std::bit_cast<int32_t>(t) - std::bit_cast<int32_t>(kRoundFloat);
  const double power = std::bit_cast<double>((1023 + 32 + n) << 52);
  const double rounded = static_cast<double>(p) * power + kRoundDouble;
  return std::bit_cast<int64_t>(rounded) - std::bit_cast<int64_t>(kRoundDouble);
}

QANAT_BODY void WeighBlock(const float* logits, int size, float max, float scale, int64_t* weights,
                           int64_t& block_max, int64_t& block_sum) {
  int64_t largest = 0;
  int64_t sum = 0;
  for (int i = 0; i < size; ++i) {
    const int64_t weight = WeightOf(logits[i], max, scale);
    weights[i] = weight;
    largest = std::max(largest, weight);
    sum += weight;
  }
  block_max = largest;
  block_sum = sum;
}

QANAT_BODY void WeighBody(const float* logits, int size, float max, float scale, int64_t* weights,
                          int64_t* block_max, int64_t* block_sum) {
  int block = 0;
  for (; (block + 1) * kBlock <= size; ++block) {
    const int at = block * kBlock;
    WeighBlock(logits + at, kBlock, max, scale, weights + at, block_max[block], block_sum[block]);
  }
  const int at = block * kBlock;
  if (at < size) {
    WeighBlock(logits + at, size - at, max, scale, weights + at, block_max[block], block_sum[block]);
  }
}

// The exponent and the leading bits of the fraction, as a double has them.
QANAT_BODY void BucketsBody(const int64_t* weights, int size, uint16_t* buckets) {
  constexpr double kBias =
      0x1p+52;  // turns an integer below 2^52 into a double without an instruction for it
  constexpr int kShift = 52 - kBucketBits;
  constexpr int32_t kFirst = (1023 << kBucketBits) - 1;
  for (int i = 0; i < size; ++i) {
    const double weight = std::bit_cast<double>(weights[i] | std::bit_cast<int64_t>(kBias)) - kBias;
    const auto leading = static_cast<int32_t>(std::bit_cast<int64_t>(weight) >> kShift);
    buckets[i] = static_cast<uint16_t>(std::max(leading - kFirst, 0));
  }
}

QANAT_BODY void CutBody(int64_t* weights, int size, int64_t weight, int64_t& ties, int64_t& block_max,
                        int64_t& block_sum) {
  int64_t equal = 0;
  for (int i = 0; i < size; ++i) equal += weights[i] == weight ? 1 : 0;
  for (int i = size - 1; i >= 0 && equal > ties; --i) {
    if (weights[i] != weight) continue;
    weights[i] = 0;
    --equal;
  }
  ties -= equal;
  int64_t largest = 0;
  int64_t sum = 0;
  for (int i = 0; i < size; ++i) {
    const int64_t kept = weights[i] >= weight ? weights[i] : 0;
    weights[i] = kept;
    largest = std::max(largest, kept);
    sum += kept;
  }
  block_max = largest;
  block_sum = sum;
}

// The bodies under one set of instructions. Functions, since a lambda would not take the attribute
// everywhere.
#define QANAT_PASSES(Name, attribute)                                                                     \
  attribute bool Maxima##Name(const float* logits, int size, float* maxima) {                             \
    return MaximaBody(logits, size, maxima);                                                              \
  }                                                                                                       \
  attribute void Weigh##Name(const float* logits, int size, float max, float scale, int64_t* weights,     \
                             int64_t* block_max, int64_t* block_sum) {                                    \
    WeighBody(logits, size, max, scale, weights, block_max, block_sum);                                   \
  }                                                                                                       \
  attribute void Buckets##Name(const int64_t* weights, int size, uint16_t* buckets) {                     \
    BucketsBody(weights, size, buckets);                                                                  \
  }                                                                                                       \
  attribute void Cut##Name(int64_t* weights, int size, int64_t weight, int64_t& ties, int64_t& block_max, \
                           int64_t& block_sum) {                                                          \
    CutBody(weights, size, weight, ties, block_max, block_sum);                                           \
  }                                                                                                       \
  constexpr PassSet k##Name = {#Name, Maxima##Name, Weigh##Name, Buckets##Name, Cut##Name};

QANAT_PASSES(Plain, )
#if defined(__x86_64__)
QANAT_PASSES(Avx2, [[gnu::target("avx2,fma")]])
QANAT_PASSES(Avx512, [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]])
#endif

}  // namespace

namespace internal {

absl::Span<const PassSet> SupportedPassSets() {
#if defined(__x86_64__)
  static constexpr PassSet kSets[] = {kPlain, kAvx2, kAvx512};
  static const int count = [] {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    return avx512 ? 3 : 2;
  }();
  return absl::MakeConstSpan(kSets).first(count);
#else
  static constexpr PassSet kSets[] = {kPlain};
  return kSets;
#endif
}

}  // namespace internal

namespace {

const internal::PassSet& Best() {
  static const internal::PassSet& best = internal::SupportedPassSets().back();
  return best;
}

}  // namespace

bool FindMaxima(absl::Span<const float> logits, absl::Span<float> maxima) {
  return Best().find_maxima(logits.data(), static_cast<int>(logits.size()), maxima.data());
}

void Weigh(absl::Span<const float> logits, float max, float scale, absl::Span<int64_t> weights,
           absl::Span<int64_t> block_max, absl::Span<int64_t> block_sum) {
  Best().weigh(logits.data(), static_cast<int>(logits.size()), max, scale, weights.data(), block_max.data(),
               block_sum.data());
}

void FindBuckets(absl::Span<const int64_t> weights, absl::Span<uint16_t> buckets) {
  Best().find_buckets(weights.data(), static_cast<int>(weights.size()), buckets.data());
}

void CutBlock(absl::Span<int64_t> weights, int64_t weight, int64_t& ties, int64_t& block_max,
              int64_t& block_sum) {
  Best().cut_block(weights.data(), static_cast<int>(weights.size()), weight, ties, block_max, block_sum);
}

}  // namespace qanat::sampling
