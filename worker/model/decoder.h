// The one walk of layers that all families share; what differs between them is data in ModelConfig.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/model/model.h"
#include "worker/model/model_config.h"
#include "worker/model/weights/gguf.h"

namespace qanat::model {

// Loads the weights into `backend`. Every tensor of the file is either used or named in an error.
// RESOURCE_EXHAUSTED, naming the flags, when steps of these limits do not fit into the memory.
absl::StatusOr<std::unique_ptr<Model>> CreateDecoder(const GgufFile& file, const ModelConfig& config,
                                                     backend::Backend& backend, const StepLimits& limits);

}  // namespace qanat::model
