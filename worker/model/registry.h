// The families of models that this build knows.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "worker/model/model.h"
#include "worker/model/model_config.h"
#include "worker/model/weights/gguf.h"

namespace qanat::model {

struct Family {
  std::string_view architecture;  // general.architecture
  // Loads the weights into `backend`. Every tensor of the file is either used or named in an error.
  absl::StatusOr<std::unique_ptr<Model>> (*create)(const GgufFile& file, const ModelConfig& config,
                                                   backend::Backend& backend, StepLimits limits);
};

// UNIMPLEMENTED naming the architecture and those that are known.
absl::StatusOr<const Family*> FindFamily(const GgufFile& file);

}  // namespace qanat::model
