#include "router/routing/weighted_sum.h"

#include <algorithm>
#include <utility>

#include "router/routing/candidates.h"

namespace qanat::router {
namespace {

// The weights of llm-d's default profile: prefix-cache, queue and kv-cache-utilization scorers.
constexpr double kPrefixWeight = 2;
constexpr double kQueueWeight = 1;
constexpr double kMemoryWeight = 1;

}  // namespace

Decision WeightedSum::Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const {
  return ChooseCandidate(request, snapshot, [&](const std::vector<WorkerId>& candidates) {
    const std::vector<int32_t> depths = PredictDepths(request, snapshot, candidates);
    int32_t shortest = snapshot.load(candidates.front()).waiting;
    int32_t longest = shortest;
    for (WorkerId id : candidates) {
      shortest = std::min(shortest, snapshot.load(id).waiting);
      longest = std::max(longest, snapshot.load(id).waiting);
    }
    const size_t best = Smallest(candidates, [&](size_t i) {
      const WorkerLoad& load = snapshot.load(candidates[i]);
      const double blocks = std::max<double>(1, static_cast<double>(request.hashes.size()));
      const double prefix = depths[i] / blocks;
      const double queue =
          longest == shortest ? 1 : static_cast<double>(longest - load.waiting) / (longest - shortest);
      const double memory = 1 - MemoryUse(snapshot.worker(candidates[i]), load, 0);
      const double score = kPrefixWeight * prefix + kQueueWeight * queue + kMemoryWeight * memory;
      return std::pair(-score, load.last_dispatch);
    });
    return PredictRoute(request, snapshot, candidates, candidates[best]);
  });
}

}  // namespace qanat::router
