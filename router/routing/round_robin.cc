#include "router/routing/round_robin.h"

#include "router/routing/candidates.h"

namespace qanat::router {

Decision RoundRobin::Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const {
  return PickSmallest(request, snapshot, [](const WorkerLoad& load) { return load.last_dispatch; });
}

}  // namespace qanat::router
