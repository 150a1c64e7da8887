#include "router/snapshot/cluster_snapshot.h"

#include <map>

namespace qanat::router {

std::string_view StateName(WorkerState state) {
  switch (state) {
    case WorkerState::kConnecting:
      return "connecting";
    case WorkerState::kReady:
      return "ready";
    case WorkerState::kSuspect:
      return "suspect";
    case WorkerState::kDraining:
      return "draining";
    case WorkerState::kDown:
      return "down";
  }
  return "";
}

std::vector<std::shared_ptr<const Model>> ModelsOf(const ClusterSnapshot& snapshot) {
  std::map<std::string_view, std::shared_ptr<const Model>> by_id;
  for (const Worker& worker : *snapshot.workers) {
    if (worker.model == nullptr) continue;
    std::shared_ptr<const Model>& known = by_id[worker.model->id];
    if (known == nullptr || worker.state == WorkerState::kReady) known = worker.model;
  }
  std::vector<std::shared_ptr<const Model>> models;
  for (auto& [id, model] : by_id) models.push_back(std::move(model));
  return models;
}

}  // namespace qanat::router
