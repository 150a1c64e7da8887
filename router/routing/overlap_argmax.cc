#include "router/routing/overlap_argmax.h"

#include <algorithm>
#include <tuple>

#include "router/routing/candidates.h"

namespace qanat::router {
namespace {

// The defaults of sgl-router: --balance-abs-threshold and --balance-rel-threshold.
constexpr int32_t kBalanceAbsolute = 64;
constexpr double kBalanceRelative = 1.5;

bool IsBalanced(const ClusterSnapshot& snapshot, const std::vector<WorkerId>& candidates) {
  int32_t least = snapshot.load(candidates.front()).in_flight;
  int32_t most = least;
  for (WorkerId id : candidates) {
    least = std::min(least, snapshot.load(id).in_flight);
    most = std::max(most, snapshot.load(id).in_flight);
  }
  return most - least <= kBalanceAbsolute || most <= kBalanceRelative * least;
}

}  // namespace

Decision OverlapArgmax::Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const {
  return ChooseCandidate(request, snapshot, [&](const std::vector<WorkerId>& candidates) {
    std::vector<int32_t> depths(candidates.size(), 0);
    if (IsBalanced(snapshot, candidates)) depths = PredictDepths(request, snapshot, candidates);
    const size_t best = Smallest(candidates, [&](size_t i) {
      const WorkerLoad& load = snapshot.load(candidates[i]);
      return std::tuple(-depths[i], load.in_flight, load.last_dispatch);
    });
    return PredictRoute(request, snapshot, candidates, candidates[best]);
  });
}

}  // namespace qanat::router
