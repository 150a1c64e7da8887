#include "router/routing/candidates.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace qanat::router {

namespace {

bool MayServe(const Worker& worker, WorkerId id, const RouteRequest& request) {
  if (worker.state != WorkerState::kReady && worker.state != WorkerState::kSuspect) return false;
  if (worker.model.get() != request.model) return false;
  if (int64_t{worker.total_blocks} * worker.model->block_size < request.pool_tokens) return false;
  return std::find(request.excluded.begin(), request.excluded.end(), id) == request.excluded.end();
}

}  // namespace

std::variant<std::vector<WorkerId>, Wait, Reject> FindCandidates(const RouteRequest& request,
                                                                 const ClusterSnapshot& snapshot) {
  std::vector<WorkerId> candidates;
  std::vector<WorkerId> suspects;
  bool full = false;
  for (size_t i = 0; i < snapshot.size(); ++i) {
    const WorkerId id{static_cast<uint16_t>(i)};
    if (!MayServe(snapshot.worker(id), id, request)) continue;
    if (snapshot.load(id).in_flight >= snapshot.worker(id).max_requests) {
      full = true;
    } else {
      (snapshot.worker(id).state == WorkerState::kReady ? candidates : suspects).push_back(id);
    }
  }
  if (!candidates.empty()) return candidates;
  if (!suspects.empty()) return suspects;
  if (full) return Wait{};
  return Reject{WithReason(
      absl::UnavailableError(absl::StrCat("no worker is ready to serve the model ", request.model->id)),
      "NO_WORKER")};
}

}  // namespace qanat::router
