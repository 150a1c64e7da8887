#pragma once

#include "router/routing/policy.h"

namespace qanat::router {

// The least cost in milliseconds: to compute what waits there and what of the prompt it has not, for its
// tokens and those of all who decode there to come later, and a barrier before a full pool. Workers within
// max(2 ms, 3 %) of the least are equal and settled by rendezvous hashing on the first block that nobody has,
// so that routers agree on the home of a new prefix without talking. docs/router.md, "Choice".
class PrefixCost final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "prefix_cost"; }
  Decision Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const override;
};

}  // namespace qanat::router
