#include "router/routing/linear_cost.h"

#include <utility>

#include "router/routing/candidates.h"

namespace qanat::router {
namespace {

// Dynamo's --kv-overlap-score-weight.
constexpr double kPrefillWeight = 1;

}  // namespace

Decision LinearCost::Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const {
  return ChooseCandidate(request, snapshot, [&](const std::vector<WorkerId>& candidates) {
    const std::vector<int32_t> depths = PredictDepths(request, snapshot, candidates);
    const double block = request.model->block_size;
    const size_t best = Smallest(candidates, [&](size_t i) {
      const WorkerLoad& load = snapshot.load(candidates[i]);
      const int64_t uncached = request.prompt_tokens - HitTokens(request, depths[i]);
      const double prefill_blocks = static_cast<double>(load.queued_tokens + uncached) / block;
      // Blocks that sequences use there, and those that this one adds to them.
      const int64_t used = UsedBlocks(snapshot.worker(candidates[i]), load);
      const double decode_blocks = static_cast<double>(used) + static_cast<double>(uncached) / block;
      return std::pair(kPrefillWeight * prefill_blocks + decode_blocks, load.last_dispatch);
    });
    return PredictRoute(request, snapshot, candidates, candidates[best]);
  });
}

}  // namespace qanat::router
