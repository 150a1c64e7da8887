// From a file to a model that runs.
//
//   QANAT_ASSIGN_OR_RETURN(auto backend, backend::CreateCpuBackend({}));
//   QANAT_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel("model.gguf", *backend, {}));
//   QANAT_RETURN_IF_ERROR(backend->AllocateKv(KvConfigFor(loaded.config, 16, num_blocks, format)));
//   DeviceModelRunner runner(*loaded.model, *backend);
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/text/tokenizer.h"
#include "worker/backend/backend.h"
#include "worker/model/model.h"
#include "worker/model/model_config.h"

namespace qanat::model {

struct LoadedModel {
  ModelConfig config;
  int context_length = 0;  // what is served of the config's
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<Model> model;  // the backend outlives it
  // 32 hex digits over the file: equal on every machine for equal files.
  std::string fingerprint;
};

// Only metadata and tokenizer: `model` is null, and the fingerprint covers what was read. For devices that do
// not compute. `max_context` as in StepLimits. Errors as LoadModel's.
absl::StatusOr<LoadedModel> LoadWithoutWeights(const std::string& path, int max_context = 0);

// Reads, checks and loads everything; the file is not needed afterwards. Errors name file, key and reason,
// and leave weights loaded so far in the backend, which is then of no use. INVALID_ARGUMENT for limits that
// are not positive or a max_context above the model's.
absl::StatusOr<LoadedModel> LoadModel(const std::string& path, backend::Backend& backend, StepLimits limits);

}  // namespace qanat::model
