// The choice of a worker for a request.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/hash/block_hash.h"
#include "router/index/index.h"
#include "router/index/pending_credits.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {

// What a policy may know of a request.
struct RouteRequest {
  const Model* model = nullptr;    // REQUIRES: not null
  int64_t pool_tokens = 0;         // that a pool must be able to hold (common/base/pool_tokens.h)
  std::vector<WorkerId> excluded;  // tried already: lost, or refused it

  absl::Span<const hash::BlockHash> hashes;  // of the prompt's full blocks, kept by the caller
  int32_t prompt_tokens = 0;
  int32_t choices = 1;         // of one prompt, each a sequence of its own
  int32_t max_new_tokens = 0;  // of a choice
  uint64_t salt = 0;           // of this request: what a policy draws its lots from
  // Who has which block, and who will have it. Null: nothing is known.
  const Index* index = nullptr;
  const PendingCredits* pending = nullptr;
};

// Send it there. What is predicted is compared with what happens.
struct Route {
  WorkerId worker;
  int32_t hit_tokens = 0;  // of the prompt, that need no computing there
  double ttft_ms = 0;      // from now to the first token
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
