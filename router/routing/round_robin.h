#pragma once

#include "router/routing/policy.h"

namespace qanat::router {

// The worker used longest ago, however busy it is: the baseline that looks at nothing.
class RoundRobin final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "round_robin"; }
  Decision Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const override;
};

}  // namespace qanat::router
