#pragma once

#include "router/routing/policy.h"

namespace qanat::router {

// Of two workers drawn by the request's salt, the one with fewer open calls of this router; of equals the one
// used longest ago.
class PowerOfTwo final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "power_of_two"; }
  Decision Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const override;
};

}  // namespace qanat::router
