#pragma once

#include "router/routing/policy.h"

namespace qanat::router {

// The worker that the prompt's beginning belongs to by rendezvous hashing, unless it has more than its share
// of open calls: then the next in that order which has not. The baseline that knows prefixes and no caches.
class ConsistentHash final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "consistent_hash"; }
  Decision Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const override;
};

}  // namespace qanat::router
