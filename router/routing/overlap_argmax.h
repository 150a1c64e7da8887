#pragma once

#include "router/routing/policy.h"

namespace qanat::router {

// As SGLang's router with cache events: the worker that has most of the prompt, of equals the one with the
// fewest open calls; the latter only, while open calls are spread too unevenly. The baseline that knows
// caches and hardly any load.
class OverlapArgmax final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "overlap_argmax"; }
  Decision Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const override;
};

}  // namespace qanat::router
