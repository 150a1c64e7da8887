#include "worker/sampling/scorer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "common/base/check.h"
#include "worker/sampling/passes.h"

namespace qanat::sampling {
namespace {

constexpr float kLog2E = 0x1.715476p+0f;

}  // namespace

std::optional<ScoredToken> Scorer::Score(absl::Span<const float> logits, TokenId token,
                                         int32_t num_likeliest) {
  QANAT_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
  maxima_.resize(NumBlocks(static_cast<int>(logits.size())));
  if (!FindMaxima(logits, absl::MakeSpan(maxima_))) return std::nullopt;
  const float max = *std::max_element(maxima_.begin(), maxima_.end());
  weights_.resize(logits.size());
  block_max_.resize(maxima_.size());
  block_sum_.resize(maxima_.size());
  Weigh(logits, max, kLog2E, absl::MakeSpan(weights_), absl::MakeSpan(block_max_),
        absl::MakeSpan(block_sum_));
  const int64_t total = std::accumulate(block_sum_.begin(), block_sum_.end(), int64_t{0});
  const double log_total = std::log(static_cast<double>(total) / static_cast<double>(kOne));
  const auto logprob = [&](TokenId id) {
    return static_cast<float>(static_cast<double>(logits[id]) - static_cast<double>(max) - log_total);
  };

  ScoredToken scored;
  scored.chosen = {token, logprob(token)};
  scored.likeliest = Likeliest(logits, std::min(static_cast<size_t>(num_likeliest), logits.size()));
  for (TokenLogprob& likely : scored.likeliest) likely.logprob = logprob(likely.token);
  return scored;
}

std::vector<TokenLogprob> Scorer::Likeliest(absl::Span<const float> logits, size_t count) {
  std::vector<TokenLogprob> likeliest;
  if (count == 0) return likeliest;
  // `count` blocks have a logit of at least the count-th largest of their maxima, so the likeliest do, too.
  const size_t rank = std::min(count, maxima_.size());
  largest_maxima_ = maxima_;
  std::nth_element(largest_maxima_.begin(), largest_maxima_.begin() + static_cast<std::ptrdiff_t>(rank - 1),
                   largest_maxima_.end(), std::greater<>());
  const bool enough_blocks = maxima_.size() >= count;
  const float floor = largest_maxima_[rank - 1];
  candidates_.clear();
  for (size_t block = 0; block < maxima_.size(); ++block) {
    if (maxima_[block] < floor) continue;
    const size_t end = std::min(logits.size(), (block + 1) * kBlock);
    for (size_t id = block * kBlock; id < end; ++id) {
      if (!enough_blocks || logits[id] >= floor) candidates_.emplace_back(logits[id], id);
    }
  }
  const auto before = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(count),
                    candidates_.end(), before);
  likeliest.reserve(count);
  for (size_t i = 0; i < count; ++i) likeliest.push_back({candidates_[i].second, 0});
  return likeliest;
}

}  // namespace qanat::sampling
