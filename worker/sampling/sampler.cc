#include "worker/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "common/base/check.h"
#include "worker/sampling/passes.h"
#include "worker/sampling/random.h"

namespace qanat::sampling {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr double kLog2E = 0x1.71547652b82fep+0;

// ceil(value * fraction), exact. REQUIRES: 0 <= fraction <= 1, 0 <= value < 2^62.
int64_t CeilOfProduct(int64_t value, float fraction) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(fraction), &exponent);
  // A float has 24 significant bits: fraction = numerator / 2^shift.
  const auto numerator = static_cast<uint64_t>(mantissa * (1 << 24));
  const int shift = 24 - exponent;
  const Wide product = static_cast<Wide>(static_cast<uint64_t>(value)) * numerator;
  if (product == 0) return 0;
  if (shift > 100) return 1;  // product < 2^86
  return static_cast<int64_t>((product + ((Wide{1} << shift) - 1)) >> shift);
}

// floor(random * total / 2^64): in [0, total).
int64_t PointBelow(int64_t total, uint64_t random) {
  return static_cast<int64_t>((static_cast<Wide>(random) * static_cast<uint64_t>(total)) >> 64);
}

int64_t MedianOf(int64_t a, int64_t b, int64_t c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

}  // namespace

std::optional<TokenId> Sampler::Sample(absl::Span<const float> logits, const Params& params,
                                       const DrawKey& draw) {
  if (!FindBlockMaxima(logits)) return std::nullopt;
  return SampleFinite(logits, *std::max_element(maxima_.begin(), maxima_.end()), params, draw);
}

std::optional<TokenId> Sampler::Sample(absl::Span<const float> logits, const Params& params,
                                       const DrawKey& draw, const LogitRules& rules,
                                       const TokenCounts& counts) {
  // Of the raw row: a mask would hide what is not finite.
  if (!FindBlockMaxima(logits)) return std::nullopt;
  logits = shaper_.Shape(logits, {rules, counts, static_cast<int32_t>(draw.position)});
  FindBlockMaxima(logits);
  const float max = *std::max_element(maxima_.begin(), maxima_.end());
  if (max == kMasked) return std::nullopt;
  return SampleFinite(logits, max, params, draw);
}

bool Sampler::FindBlockMaxima(absl::Span<const float> logits) {
  QANAT_CHECK(!logits.empty());
  maxima_.resize(NumBlocks(static_cast<int>(logits.size())));
  return FindMaxima(logits, absl::MakeSpan(maxima_));
}

TokenId Sampler::SampleFinite(absl::Span<const float> logits, float max, const Params& params,
                              const DrawKey& draw) {
  if (params.greedy()) return Largest(logits, max);
  const int size = static_cast<int>(logits.size());
  weights_.resize(size);
  block_max_.resize(maxima_.size());
  block_sum_.resize(maxima_.size());
  const auto scale = static_cast<float>(kLog2E / static_cast<double>(params.temperature));
  Weigh(logits, max, scale, absl::MakeSpan(weights_), absl::MakeSpan(block_max_), absl::MakeSpan(block_sum_));
  if (params.top_k > 0 && params.top_k < size) KeepTopK(params.top_k);
  if (params.top_p < 1) KeepTopP(params.top_p);
  if (params.min_p > 0) Keep({CeilOfProduct(kOne, params.min_p), size});
  return Draw(RandomBits(draw));
}

TokenId Sampler::Largest(absl::Span<const float> logits, float max) const {
  const auto block = std::find(maxima_.begin(), maxima_.end(), max) - maxima_.begin();
  return static_cast<TokenId>(std::find(logits.begin() + block * kBlock, logits.end(), max) - logits.begin());
}

absl::Span<int64_t> Sampler::Block(size_t block) {
  return absl::MakeSpan(weights_).subspan(block * kBlock, kBlock);
}

int64_t Sampler::TotalWeight() const {
  return std::accumulate(block_sum_.begin(), block_sum_.end(), int64_t{0});
}

void Sampler::KeepTopK(int64_t k) {
  int64_t floor = 1;
  if (k <= static_cast<int64_t>(block_max_.size())) {
    // k blocks have a weight of at least the k-th largest of their maxima, so that the first k of the order
    // do too.
    scratch_ = block_max_;
    std::nth_element(scratch_.begin(), scratch_.begin() + (k - 1), scratch_.end(), std::greater<>());
    floor = std::max<int64_t>(scratch_[k - 1], 1);
  }
  Keep(CutOf(Measure::kCount, k, floor));
}

void Sampler::KeepTopP(float top_p) { Keep(CutOf(Measure::kSum, CeilOfProduct(TotalWeight(), top_p), 1)); }

void Sampler::Keep(Cut cut) {
  for (size_t block = 0; block < block_max_.size(); ++block) {
    if (block_max_[block] >= cut.weight) {
      CutBlock(Block(block), cut.weight, cut.ties, block_max_[block], block_sum_[block]);
    } else {
      block_max_[block] = block_sum_[block] = 0;
    }
  }
}

Sampler::Cut Sampler::CutOf(Measure measure, int64_t target, int64_t floor) {
  histogram_.assign(kNumBuckets, 0);
  std::array<uint16_t, kBlock> buckets;
  for (size_t block = 0; block < block_max_.size(); ++block) {
    if (block_max_[block] < floor) continue;
    const absl::Span<const int64_t> weights = Block(block);
    FindBuckets(weights, absl::MakeSpan(buckets));
    for (size_t i = 0; i < weights.size(); ++i)
      histogram_[buckets[i]] += measure == Measure::kSum ? weights[i] : 1;
  }
  int64_t above = 0;
  int bucket = kNumBuckets - 1;
  for (; bucket > 0 && above + histogram_[bucket] < target; --bucket) above += histogram_[bucket];
  if (bucket == 0) return {1, static_cast<int64_t>(weights_.size())};
  scratch_.clear();
  for (size_t block = 0; block < block_max_.size(); ++block) {
    if (block_max_[block] < floor) continue;
    const absl::Span<const int64_t> weights = Block(block);
    FindBuckets(weights, absl::MakeSpan(buckets));
    for (size_t i = 0; i < weights.size(); ++i) {
      if (buckets[i] == bucket) scratch_.push_back(weights[i]);
    }
  }
  return CutOfScratch(measure, target, above);
}

// Quickselect, by count or by sum.
Sampler::Cut Sampler::CutOfScratch(Measure measure, int64_t target, int64_t above) {
  auto begin = scratch_.begin();
  auto end = scratch_.end();
  while (true) {
    QANAT_CHECK(begin < end) << "the bucket holds less than its histogram says";
    const int64_t pivot = MedianOf(*begin, begin[(end - begin) / 2], end[-1]);
    const auto equal = std::partition(begin, end, [pivot](int64_t weight) { return weight > pivot; });
    const auto lighter = std::partition(equal, end, [pivot](int64_t weight) { return weight == pivot; });
    const int64_t each = measure == Measure::kSum ? pivot : 1;
    const int64_t front =
        above + (measure == Measure::kSum ? std::accumulate(begin, equal, int64_t{0}) : equal - begin);
    const int64_t with_equal = front + (lighter - equal) * each;
    if (front >= target) {
      end = equal;
    } else if (with_equal >= target) {
      return {pivot, (target - front + each - 1) / each};
    } else {
      above = with_equal;
      begin = lighter;
    }
  }
}

TokenId Sampler::Draw(uint64_t random) const {
  int64_t point = PointBelow(TotalWeight(), random);
  size_t block = 0;
  for (; point >= block_sum_[block]; ++block) point -= block_sum_[block];
  size_t id = block * kBlock;
  for (; point >= weights_[id]; ++id) point -= weights_[id];
  return static_cast<TokenId>(id);
}

}  // namespace qanat::sampling
