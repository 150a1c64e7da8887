// The question that every policy asks first: who could take the request at all?
#pragma once

#include <variant>
#include <vector>

#include "router/routing/policy.h"

namespace qanat::router {

// The workers that are ready, serve the model, have a pool large enough, take another request and are not
// excluded: never an empty list. Wait when all that is missing is a free place; else Reject: UNAVAILABLE,
// reason NO_WORKER.
std::variant<std::vector<WorkerId>, Wait, Reject> FindCandidates(const RouteRequest& request,
                                                                 const ClusterSnapshot& snapshot);

// Of the candidates, the one with the smallest `key(load)`; Wait or Reject when there is none.
template <typename Key>
Decision PickSmallest(const RouteRequest& request, const ClusterSnapshot& snapshot, Key key) {
  const auto found = FindCandidates(request, snapshot);
  if (std::holds_alternative<Wait>(found)) return Wait{};
  if (const auto* reject = std::get_if<Reject>(&found)) return *reject;
  const auto& candidates = std::get<std::vector<WorkerId>>(found);
  WorkerId best = candidates.front();
  for (WorkerId id : candidates) {
    if (key(snapshot.load(id)) < key(snapshot.load(best))) best = id;
  }
  return Route{best};
}

}  // namespace qanat::router
