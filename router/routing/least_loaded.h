#pragma once

#include "router/routing/policy.h"

namespace qanat::router {

// The worker with the fewest open calls of this router; of equals the one used longest ago, so that idle
// workers share what comes in turn.
class LeastLoaded final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "least_loaded"; }
  Decision Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const override;
};

}  // namespace qanat::router
