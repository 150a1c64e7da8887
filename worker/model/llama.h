// Llama and the models that share its layers: Mistral, SmolLM2 and others under GGUF's architecture "llama".
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/model/model.h"
#include "worker/model/model_config.h"
#include "worker/model/weights/gguf.h"

namespace qanat::model {

// See Family::create.
absl::StatusOr<std::unique_ptr<Model>> CreateLlama(const GgufFile& file, const ModelConfig& config,
                                                   backend::Backend& backend, StepLimits limits);

}  // namespace qanat::model
