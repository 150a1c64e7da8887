#include "router/cluster/served_model.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/base/error.h"

namespace qanat::router {
namespace {

using Models = std::vector<std::shared_ptr<const Model>>;

std::string Names(const Models& models) {
  return absl::StrJoin(models, ", ", [](std::string* out, const auto& model) { out->append(model->id); });
}

absl::StatusOr<std::shared_ptr<const Model>> Choose(const ClusterSnapshot& snapshot,
                                                    const std::string& name) {
  const Models models = ModelsOf(snapshot);
  if (models.empty()) {
    return WithReason(absl::UnavailableError("no worker is ready yet"), "NO_WORKER");
  }
  if (name.empty()) {
    if (models.size() == 1) return models.front();
    return InvalidField("model", absl::StrCat("several are served, name one of: ", Names(models)));
  }
  // One whose workers are away is not unknown.
  if (std::shared_ptr<const Model> model = FindModel(snapshot, name); model != nullptr) return model;
  return WithReason(WithField(absl::NotFoundError(
                                  absl::StrCat("model: there is none of that name; served: ", Names(models))),
                              "model"),
                    "MODEL_NOT_FOUND");
}

}  // namespace

absl::StatusOr<ServedModel> FindServedModel(const ClusterSnapshot& snapshot, const std::string& name) {
  absl::StatusOr<std::shared_ptr<const Model>> model = Choose(snapshot, name);
  if (!model.ok()) return model.status();
  ServedModel served;
  served.model = *std::move(model);
  served.limits.id = served.model->id;
  served.limits.context_length = served.model->context_length;
  served.limits.vocab_size = served.model->vocab_size;
  served.limits.block_size = served.model->block_size;
  for (const Worker& worker : *snapshot.workers) {
    if (worker.model != served.model) continue;
    const int64_t pool_tokens = int64_t{worker.total_blocks} * served.model->block_size;
    served.limits.pool_tokens = std::max(served.limits.pool_tokens, pool_tokens);
  }
  return served;
}

}  // namespace qanat::router
