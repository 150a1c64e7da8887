// What a request costs the cluster at each of its workers.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/step_model.h"
#include "router/routing/policy.h"
#include "router/routing/prediction.h"

namespace qanat::router {

// What: prices one request, in milliseconds; docs/router.md, "Choice", has the formula. The request and the
// snapshot outlive it. Threads: immutable. Errors: none.
class Pricing {
 public:
  // `workers`: the candidates.
  Pricing(const RouteRequest& request, const ClusterSnapshot& snapshot, const std::vector<WorkerId>& workers);

  // At one of them, where `hit_tokens` of the prompt need no computing. More of those never cost more.
  double Cost(WorkerId id, int32_t hit_tokens) const;
  Route RouteTo(WorkerId id, int32_t hit_tokens) const;

 private:
  // Tokens that its choices read in a step.
  int64_t Context() const;
  // What its decoding costs it, beyond that alone on the fastest worker, and the others there.
  double DecodeMs(const WorkerLoad& load, const StepModel& model) const;
  // A barrier before the end of the pool, where it would be preempted or preempt others.
  double MemoryMs(const Worker& worker, const WorkerLoad& load, const StepModel& model) const;

  const RouteRequest& request_;
  const ClusterSnapshot& snapshot_;
  const FleetModel fleet_;
  const int32_t output_;  // tokens that each choice will generate, as far as one can tell
  double alone_us_;       // a step of it alone, on the fastest worker
};

}  // namespace qanat::router
