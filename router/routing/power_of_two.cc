#include "router/routing/power_of_two.h"

#include <utility>

#include "router/routing/candidates.h"

namespace qanat::router {

Decision PowerOfTwo::Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const {
  return ChooseCandidate(request, snapshot, [&](const std::vector<WorkerId>& candidates) {
    const uint64_t lot = hash::Mix(request.salt);
    const size_t first = lot % candidates.size();
    // Another one, where there is another.
    const size_t others = candidates.size() - 1;
    const size_t second = others == 0 ? first : (first + 1 + (lot >> 32) % others) % candidates.size();
    const auto key = [&](size_t i) {
      const WorkerLoad& load = snapshot.load(candidates[i]);
      return std::pair(load.in_flight, load.last_dispatch);
    };
    const WorkerId chosen = candidates[key(second) < key(first) ? second : first];
    return PredictRoute(request, snapshot, candidates, chosen);
  });
}

}  // namespace qanat::router
