// The choice of a worker for a request.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {

// What a policy may know of a request.
struct RouteRequest {
  const Model* model = nullptr;    // REQUIRES: not null
  int64_t max_tokens = 0;          // of prompt and output together: what a pool must be able to hold
  std::vector<WorkerId> excluded;  // tried already: lost, or refused it
};

// Send it there.
struct Route {
  WorkerId worker;
};
// Every worker that could take it has all the requests it takes at once.
struct Wait {};
// There is no sense in waiting.
struct Reject {
  absl::Status status;
};
using Decision = std::variant<Route, Wait, Reject>;

// What: chooses. Owns nothing that changes: equal arguments, equal decisions. No I/O, no locks.
// Threads: any. Errors: are decisions.
class RoutingPolicy {
 public:
  virtual ~RoutingPolicy() = default;
  // As in --policy and in metrics.
  virtual std::string_view name() const = 0;
  virtual Decision Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const = 0;
};

}  // namespace qanat::router
