#pragma once

#include "router/routing/policy.h"

namespace qanat::router {

// As Dynamo's KV router: the fewest blocks, to be computed there before the first token and in use there
// after it, added up. The baseline that counts load in blocks.
class LinearCost final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "linear_cost"; }
  Decision Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const override;
};

}  // namespace qanat::router
