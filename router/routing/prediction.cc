#include "router/routing/prediction.h"

#include <algorithm>

namespace qanat::router {
namespace {

// A small model on a GPU of the middle class: what is assumed before a worker has told anything.
constexpr StepModel kUnknown{.fixed_us = 1000,
                             .sequence_us = 50,
                             .weights_us = 10'000,
                             .token_us = 100,
                             .context_us = 0.05,
                             .attention_us = 0.001};

// The part of a worker's own slope that counts, against the fleet's.
constexpr double kOwnPart = 0.75;

// a + factor * b, coefficient by coefficient.
StepModel Sum(const StepModel& a, double factor, const StepModel& b) {
  return {.fixed_us = a.fixed_us + factor * b.fixed_us,
          .sequence_us = a.sequence_us + factor * b.sequence_us,
          .weights_us = a.weights_us + factor * b.weights_us,
          .token_us = a.token_us + factor * b.token_us,
          .context_us = a.context_us + factor * b.context_us,
          .attention_us = a.attention_us + factor * b.attention_us};
}

bool IsKnown(const StepModel& model) { return model != StepModel(); }

}  // namespace

std::vector<int32_t> PredictDepths(const RouteRequest& request, const ClusterSnapshot& snapshot,
                                   const std::vector<WorkerId>& candidates) {
  std::vector<int32_t> depths(candidates.size(), 0);
  if (request.hashes.empty()) return depths;
  if (request.index != nullptr) {
    std::vector<HolderId> holders;
    std::vector<size_t> places;
    holders.reserve(candidates.size());
    places.reserve(candidates.size());
    for (size_t i = 0; i < candidates.size(); ++i) {
      const auto& holder = snapshot.worker(candidates[i]).holder;
      if (!holder.has_value()) continue;
      holders.push_back(*holder);
      places.push_back(i);
    }
    std::vector<int32_t> found(holders.size());
    request.index->Match(request.hashes, holders, absl::MakeSpan(found));
    for (size_t i = 0; i < places.size(); ++i) depths[places[i]] = found[i];
  }
  if (request.pending != nullptr) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      depths[i] = request.pending->Extend(candidates[i], request.hashes, depths[i]);
    }
  }
  return depths;
}

int32_t HitTokens(const RouteRequest& request, int32_t depth) {
  const int64_t block = request.model->block_size;
  const int64_t most = (std::max(request.prompt_tokens, 1) - 1) / block * block;
  return static_cast<int32_t>(std::min(depth * block, most));
}

FleetModel::FleetModel(const ClusterSnapshot& snapshot, const std::vector<WorkerId>& workers) {
  int known = 0;
  for (WorkerId id : workers) known += IsKnown(snapshot.load(id).step_model) ? 1 : 0;
  if (known == 0) {
    mean_ = kUnknown;
    return;
  }
  for (WorkerId id : workers) mean_ = Sum(mean_, 1.0 / known, snapshot.load(id).step_model);
}

StepModel FleetModel::Of(const WorkerLoad& load) const {
  if (!IsKnown(load.step_model)) return mean_;
  StepModel model = load.step_model;
  model.token_us = kOwnPart * model.token_us + (1 - kOwnPart) * mean_.token_us;
  return model;
}

int64_t SequencesAt(const WorkerLoad& load) {
  return std::max(int64_t{load.running} + load.waiting, int64_t{load.in_flight});
}

int64_t UsedBlocks(const Worker& worker, const WorkerLoad& load) {
  const int64_t unused = load.free_blocks + load.cached_blocks;
  const bool told = unused > 0 || load.running > 0 || load.waiting > 0;
  return told ? std::max<int64_t>(worker.total_blocks - unused, 0) : 0;
}

double MemoryUse(const Worker& worker, const WorkerLoad& load, int64_t more) {
  if (worker.total_blocks <= 0) return 0;
  const auto used = static_cast<double>(UsedBlocks(worker, load) + more);
  return std::min(used / static_cast<double>(worker.total_blocks), 1.0);
}

double PrefillMs(const RouteRequest& request, const StepModel& model, int32_t hit_tokens) {
  // Each token behind the hit reads the keys before it; their mean number is that in the middle.
  const double context = (static_cast<double>(hit_tokens) + request.prompt_tokens) / 2;
  const double tokens = request.prompt_tokens - hit_tokens;
  return tokens * (model.token_us + model.attention_us * context) / 1000;
}

double QueueMs(const WorkerLoad& load, const StepModel& model) {
  return static_cast<double>(load.queued_tokens) * model.token_us / 1000;
}

double PredictTtftMs(const RouteRequest& request, const WorkerLoad& load, const StepModel& model,
                     int32_t hit_tokens) {
  const int64_t sequences = SequencesAt(load);
  const double step_us = model.PredictUs({.sequences = sequences,
                                          .tokens = sequences,
                                          .context_tokens = load.context_tokens,
                                          .chunk_attention = 0});
  return QueueMs(load, model) + PrefillMs(request, model, hit_tokens) + step_us / 1000;
}

Route PredictRoute(const RouteRequest& request, const ClusterSnapshot& snapshot,
                   const std::vector<WorkerId>& candidates, WorkerId worker) {
  const int32_t hit = HitTokens(request, PredictDepths(request, snapshot, {worker}).front());
  const WorkerLoad& load = snapshot.load(worker);
  const StepModel model = FleetModel(snapshot, candidates).Of(load);
  return {.worker = worker, .hit_tokens = hit, .ttft_ms = PredictTtftMs(request, load, model, hit)};
}

}  // namespace qanat::router
