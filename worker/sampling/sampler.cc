#include "worker/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/base/check.h"
#include "worker/sampling/random.h"
#include "worker/sampling/weigh.h"

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
  QANAT_CHECK(!logits.empty());
  const int size = static_cast<int>(logits.size());
  maxima_.resize(NumBlocks(size));
  if (!FindMaxima(logits, absl::MakeSpan(maxima_))) return std::nullopt;
  const float max = *std::max_element(maxima_.begin(), maxima_.end());
  if (params.greedy()) return Largest(logits, max);

  weights_.resize(size);
  block_max_.resize(maxima_.size());
  block_sum_.resize(maxima_.size());
  const auto scale = static_cast<float>(kLog2E / static_cast<double>(params.temperature));
  Weigh(logits, max, scale, absl::MakeSpan(weights_), absl::MakeSpan(block_max_), absl::MakeSpan(block_sum_));
  gathered_ = false;
  if (params.top_k > 0 && params.top_k < size) KeepTopK(params.top_k);
  if (params.top_p < 1) KeepTopP(params.top_p);
  if (params.min_p > 0) KeepAtLeast(CeilOfProduct(kOne, params.min_p));
  const uint64_t random = RandomBits(draw);
  return gathered_ ? DrawFromKept(random) : DrawFromAll(random);
}

TokenId Sampler::Largest(absl::Span<const float> logits, float max) const {
  const auto block = std::find(maxima_.begin(), maxima_.end(), max) - maxima_.begin();
  return static_cast<TokenId>(std::find(logits.begin() + block * kBlock, logits.end(), max) - logits.begin());
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
  Gather(floor);
  if (static_cast<int64_t>(kept_.size()) > k) Apply(CutOfCount(k));
}

void Sampler::KeepTopP(float top_p) {
  int64_t total = 0;
  if (gathered_) {
    for (const Weighted& token : kept_) total += token.weight;
  } else {
    for (const int64_t sum : block_sum_) total += sum;
  }
  const int64_t needed = CeilOfProduct(total, top_p);
  if (!gathered_) {
    // Most rows are decided by few tokens: light ones are looked at only when the heavy ones do not suffice.
    for (const int64_t floor : {kOne >> 8, kOne >> 16, int64_t{1}}) {
      if (Gather(floor) >= needed) break;
    }
  }
  Apply(CutOfSum(needed));
}

void Sampler::KeepAtLeast(int64_t weight) {
  if (gathered_) {
    std::erase_if(kept_, [weight](const Weighted& token) { return token.weight < weight; });
  } else {
    Gather(weight);
  }
}

int64_t Sampler::Gather(int64_t floor) {
  gathered_ = true;
  kept_.resize(weights_.size());
  size_t count = 0;
  int64_t sum = 0;
  for (size_t block = 0; block < block_max_.size(); ++block) {
    if (block_max_[block] < floor) continue;
    const size_t end = std::min(weights_.size(), (block + 1) * kBlock);
    for (size_t id = block * kBlock; id < end; ++id) {
      // Without a branch: which tokens are heavy is nothing a processor can guess.
      const bool keep = weights_[id] >= floor;
      kept_[count] = {weights_[id], static_cast<TokenId>(id)};
      count += keep;
      sum += keep ? weights_[id] : 0;
    }
  }
  kept_.resize(count);
  return sum;
}

void Sampler::Apply(Cut cut) {
  std::erase_if(kept_, [&cut](const Weighted& token) {
    return token.weight < cut.weight || (token.weight == cut.weight && cut.ties-- <= 0);
  });
}

Sampler::Cut Sampler::CutOfCount(int64_t count) {
  scratch_.resize(kept_.size());
  std::transform(kept_.begin(), kept_.end(), scratch_.begin(),
                 [](const Weighted& token) { return token.weight; });
  const auto last = scratch_.begin() + (count - 1);
  std::nth_element(scratch_.begin(), last, scratch_.end(), std::greater<>());
  const int64_t weight = *last;
  const auto heavier =
      std::count_if(scratch_.begin(), last, [weight](int64_t other) { return other > weight; });
  return {weight, count - heavier};
}

// Quickselect by sum: `heavier` is what lies in front of [begin, end) in the order.
Sampler::Cut Sampler::CutOfSum(int64_t sum) {
  scratch_.resize(kept_.size());
  std::transform(kept_.begin(), kept_.end(), scratch_.begin(),
                 [](const Weighted& token) { return token.weight; });
  auto begin = scratch_.begin();
  auto end = scratch_.end();
  int64_t heavier = 0;
  while (true) {
    QANAT_CHECK(begin < end) << "the sum of what is kept is below what is needed";
    const int64_t pivot = MedianOf(*begin, begin[(end - begin) / 2], end[-1]);
    const auto equal = std::partition(begin, end, [pivot](int64_t weight) { return weight > pivot; });
    const auto lighter = std::partition(equal, end, [pivot](int64_t weight) { return weight == pivot; });
    int64_t above = heavier;
    for (auto it = begin; it != equal; ++it) above += *it;
    const int64_t with_equal = above + (lighter - equal) * pivot;
    if (above >= sum) {
      end = equal;
    } else if (with_equal >= sum) {
      return {pivot, (sum - above + pivot - 1) / pivot};
    } else {
      heavier = with_equal;
      begin = lighter;
    }
  }
}

TokenId Sampler::DrawFromAll(uint64_t random) const {
  int64_t total = 0;
  for (const int64_t sum : block_sum_) total += sum;
  int64_t point = PointBelow(total, random);
  size_t block = 0;
  for (; point >= block_sum_[block]; ++block) point -= block_sum_[block];
  size_t id = block * kBlock;
  for (; point >= weights_[id]; ++id) point -= weights_[id];
  return static_cast<TokenId>(id);
}

TokenId Sampler::DrawFromKept(uint64_t random) const {
  int64_t total = 0;
  for (const Weighted& token : kept_) total += token.weight;
  int64_t point = PointBelow(total, random);
  size_t at = 0;
  for (; point >= kept_[at].weight; ++at) point -= kept_[at].weight;
  return kept_[at].id;
}

}  // namespace qanat::sampling
