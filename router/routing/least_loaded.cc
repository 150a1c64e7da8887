#include "router/routing/least_loaded.h"

#include <utility>

#include "router/routing/candidates.h"

namespace qanat::router {

Decision LeastLoaded::Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const {
  return PickSmallest(request, snapshot,
                      [](const WorkerLoad& load) { return std::pair(load.in_flight, load.last_dispatch); });
}

}  // namespace qanat::router
