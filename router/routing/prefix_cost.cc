#include "router/routing/prefix_cost.h"

#include <algorithm>
#include <utility>

#include "common/hash/rendezvous.h"
#include "router/routing/candidates.h"
#include "router/routing/pricing.h"

namespace qanat::router {
namespace {

// Costs that differ by less are equal.
constexpr double kTieMs = 2;
constexpr double kTiePart = 0.03;

// What settles a tie: the lowest wins.
class TieBreaker {
 public:
  TieBreaker(const RouteRequest& request, const ClusterSnapshot& snapshot, const std::vector<int32_t>& depths)
      : snapshot_(snapshot), has_key_(!request.hashes.empty()) {
    if (!has_key_) return;
    // The first block that nobody has, so that a new prefix has one home; the last where all are held.
    const auto deepest = static_cast<size_t>(*std::max_element(depths.begin(), depths.end()));
    key_ = request.hashes[std::min(deepest, request.hashes.size() - 1)];
  }

  // A prompt of less than a block leaves nothing to find again: its ties go to the least loaded.
  std::pair<int32_t, uint64_t> Rank(WorkerId id) const {
    const WorkerLoad& load = snapshot_.load(id);
    if (!has_key_) return {load.in_flight, load.last_dispatch};
    return {0, ~hash::RendezvousWeight(key_, snapshot_.worker(id).address)};
  }

 private:
  const ClusterSnapshot& snapshot_;
  const bool has_key_;
  hash::BlockHash key_ = 0;
};

}  // namespace

Decision PrefixCost::Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const {
  return ChooseCandidate(request, snapshot, [&](const std::vector<WorkerId>& candidates) {
    const std::vector<int32_t> depths = PredictDepths(request, snapshot, candidates);
    const Pricing pricing(request, snapshot, candidates);
    std::vector<double> costs(candidates.size());
    for (size_t i = 0; i < candidates.size(); ++i) {
      costs[i] = pricing.Cost(candidates[i], HitTokens(request, depths[i]));
    }
    const double least = *std::min_element(costs.begin(), costs.end());
    const double bound = least + std::max(kTieMs, kTiePart * least);
    const TieBreaker tie(request, snapshot, depths);
    const size_t best = Smallest(candidates, [&](size_t i) {
      const bool too_dear = costs[i] > bound;
      return std::pair(too_dear, tie.Rank(candidates[i]));
    });
    return pricing.RouteTo(candidates[best], HitTokens(request, depths[best]));
  });
}

}  // namespace qanat::router
