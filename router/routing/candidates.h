// The question that every policy asks first: who could take the request at all?
#pragma once

#include <variant>
#include <vector>

#include "router/routing/policy.h"
#include "router/routing/prediction.h"

namespace qanat::router {

// The workers that are ready, serve the model, have a pool large enough, take another request and are not
// excluded, or where there is none the suspect ones for which the same holds: never an empty list. Wait when
// all that is missing is a free place; else Reject: UNAVAILABLE, reason NO_WORKER.
std::variant<std::vector<WorkerId>, Wait, Reject> FindCandidates(const RouteRequest& request,
                                                                 const ClusterSnapshot& snapshot);

// Wait or Reject where there is no candidate; else the Route that `choose(candidates)` returns.
template <typename Choose>
Decision ChooseCandidate(const RouteRequest& request, const ClusterSnapshot& snapshot, Choose choose) {
  const auto found = FindCandidates(request, snapshot);
  if (std::holds_alternative<Wait>(found)) return Wait{};
  if (const auto* reject = std::get_if<Reject>(&found)) return *reject;
  return choose(std::get<std::vector<WorkerId>>(found));
}

// The position in `candidates` with the smallest `key(position)`; of equals the first.
template <typename Key>
size_t Smallest(const std::vector<WorkerId>& candidates, Key key) {
  size_t best = 0;
  auto best_key = key(best);
  for (size_t i = 1; i < candidates.size(); ++i) {
    auto other = key(i);
    if (other < best_key) best = i, best_key = std::move(other);
  }
  return best;
}

// Of the candidates, the one with the smallest `key(load)`; for policies that do not ask who holds what.
template <typename Key>
Decision PickSmallest(const RouteRequest& request, const ClusterSnapshot& snapshot, Key key) {
  return ChooseCandidate(request, snapshot, [&](const std::vector<WorkerId>& candidates) {
    const size_t best = Smallest(candidates, [&](size_t i) { return key(snapshot.load(candidates[i])); });
    return PredictRoute(request, snapshot, candidates, candidates[best]);
  });
}

}  // namespace qanat::router
