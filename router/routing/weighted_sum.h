#pragma once

#include "router/routing/policy.h"

namespace qanat::router {

// As llm-d's scheduler by default: scores from 0 to 1 for the part of the prompt that is cached, a short
// queue and free memory, weighted 2 : 1 : 1; the highest sum wins.
class WeightedSum final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "weighted_sum"; }
  Decision Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const override;
};

}  // namespace qanat::router
