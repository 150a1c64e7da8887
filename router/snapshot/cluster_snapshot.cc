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
  std::map<std::string_view, std::shared_ptr<const Model>> served;
  std::map<std::string_view, std::shared_ptr<const Model>> remembered;
  for (const Worker& worker : *snapshot.workers) {
    if (worker.model == nullptr) continue;
    (worker.state == WorkerState::kDown ? remembered : served).emplace(worker.model->id, worker.model);
  }
  std::vector<std::shared_ptr<const Model>> models;
  for (auto& [id, model] : served.empty() ? remembered : served) models.push_back(std::move(model));
  return models;
}

std::shared_ptr<const Model> FindModel(const ClusterSnapshot& snapshot, std::string_view id) {
  std::shared_ptr<const Model> found;
  for (const Worker& worker : *snapshot.workers) {
    if (worker.model == nullptr || worker.model->id != id) continue;
    if (worker.state != WorkerState::kDown) return worker.model;
    if (found == nullptr) found = worker.model;
  }
  return found;
}

}  // namespace qanat::router
