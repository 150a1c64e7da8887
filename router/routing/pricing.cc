#include "router/routing/pricing.h"

#include <algorithm>
#include <limits>

namespace qanat::router {
namespace {

// Tokens that a request generates, as long as nobody has counted them.
constexpr int32_t kMedianOutput = 256;
// What a pool that is half full costs, in prefills of the whole prompt.
constexpr double kMemoryWeight = 0.1;
constexpr double kMostMemoryUse = 0.98;
// `sequences` requests that compute a token each.
StepShape DecodeShape(int64_t sequences, int64_t context_tokens) {
  return {
      .sequences = sequences, .tokens = sequences, .context_tokens = context_tokens, .chunk_attention = 0};
}

}  // namespace

Pricing::Pricing(const RouteRequest& request, const ClusterSnapshot& snapshot,
                 const std::vector<WorkerId>& workers)
    : request_(request),
      snapshot_(snapshot),
      fleet_(snapshot, workers),
      output_(std::min(request.max_new_tokens, kMedianOutput)),
      alone_us_(std::numeric_limits<double>::infinity()) {
  for (WorkerId id : workers) {
    const StepModel model = fleet_.Of(snapshot.load(id));
    alone_us_ = std::min(alone_us_, model.PredictUs(DecodeShape(request.choices, Context())));
  }
}

int64_t Pricing::Context() const { return int64_t{request_.choices} * request_.prompt_tokens; }

double Pricing::Cost(WorkerId id, int32_t hit_tokens) const {
  const WorkerLoad& load = snapshot_.load(id);
  const StepModel model = fleet_.Of(load);
  return QueueMs(load, model) + PrefillMs(request_, model, hit_tokens) + DecodeMs(load, model) +
         MemoryMs(snapshot_.worker(id), load, model);
}

Route Pricing::RouteTo(WorkerId id, int32_t hit_tokens) const {
  const WorkerLoad& load = snapshot_.load(id);
  return {.worker = id,
          .hit_tokens = hit_tokens,
          .ttft_ms = PredictTtftMs(request_, load, fleet_.Of(load), hit_tokens)};
}

double Pricing::DecodeMs(const WorkerLoad& load, const StepModel& model) const {
  const int64_t others = SequencesAt(load);
  const double before_us = model.PredictUs(DecodeShape(others, load.context_tokens));
  const double after_us =
      model.PredictUs(DecodeShape(others + request_.choices, load.context_tokens + Context()));
  const double extra_us = static_cast<double>(others) * (after_us - before_us);
  return output_ * (after_us - alone_us_ + extra_us) / 1000;
}

double Pricing::MemoryMs(const Worker& worker, const WorkerLoad& load, const StepModel& model) const {
  const int64_t tokens =
      request_.prompt_tokens + int64_t{request_.choices} * output_;  // the prompt's are shared
  const int64_t block = request_.model->block_size;
  const double use = std::min(MemoryUse(worker, load, (tokens + block - 1) / block), kMostMemoryUse);
  return kMemoryWeight * PrefillMs(request_, model, 0) * use / (1 - use);
}

}  // namespace qanat::router
