// Which model a caller means.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/api/generate.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {

struct ServedModel {
  std::shared_ptr<const Model> model;  // shared: a request keeps it
  api::ServedModel limits;             // pool_tokens: of the largest pool among its workers
};

// The model named `name`, also while its workers are down; of an empty name the only one that is served, or
// was where none is. UNAVAILABLE (NO_WORKER) before any worker
// was ready; NOT_FOUND for another name; INVALID_ARGUMENT for an empty one where several are served.
absl::StatusOr<ServedModel> FindServedModel(const ClusterSnapshot& snapshot, const std::string& name);

}  // namespace qanat::router
