// What it would be like to send a request to a worker.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/step_model.h"
#include "router/routing/policy.h"

namespace qanat::router {

// [candidates] How many blocks of the prompt, from its first, each has or will have before the request gets
// there.
std::vector<int32_t> PredictDepths(const RouteRequest& request, const ClusterSnapshot& snapshot,
                                   const std::vector<WorkerId>& candidates);

// Prompt tokens that a worker with so many of its blocks does not compute: at least the last one always is.
int32_t HitTokens(const RouteRequest& request, int32_t depth);

// Step models of some workers, with something plausible for each of them.
class FleetModel {
 public:
  // `workers`: those of the request's model that can take it.
  FleetModel(const ClusterSnapshot& snapshot, const std::vector<WorkerId>& workers);

  // The worker's own model with a slope of tokens that is drawn a little towards the fleet's, as a fit over
  // few steps is inexact; the fleet's mean where it has told none, and a constant where none has.
  StepModel Of(const WorkerLoad& load) const;

 private:
  StepModel mean_;
};

// Requests of which each step there computes a token, as far as we know: those that the worker told of, or
// our own open calls where these are more.
int64_t SequencesAt(const WorkerLoad& load);

// Blocks of the worker's pool that requests use; 0 while it has not told.
int64_t UsedBlocks(const Worker& worker, const WorkerLoad& load);
// The part of its pool that they and `more` blocks use, from 0 to 1.
double MemoryUse(const Worker& worker, const WorkerLoad& load, int64_t more);

// Until its first token: what is queued before it, its own prefill behind `hit_tokens`, and a step of all.
double PrefillMs(const RouteRequest& request, const StepModel& model, int32_t hit_tokens);
double QueueMs(const WorkerLoad& load, const StepModel& model);
double PredictTtftMs(const RouteRequest& request, const WorkerLoad& load, const StepModel& model,
                     int32_t hit_tokens);

// The route to `worker`, one of the candidates, with what is to be expected of it.
Route PredictRoute(const RouteRequest& request, const ClusterSnapshot& snapshot,
                   const std::vector<WorkerId>& candidates, WorkerId worker);

}  // namespace qanat::router
