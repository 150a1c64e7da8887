// What a model file holds, as JSON: what `qanat inspect` tells.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace qanat::tools {

// The report on a GGUF or safetensors file, told apart by their first bytes. Every report has the same keys
// in the same order, null where the file says nothing (docs/models.md lists them). Reads no weights. Errors:
// a file that cannot be read, is neither of both, or is malformed, by its name, the place and the reason.
// `tensors`: with a list of them, in the order of their data.
absl::StatusOr<nlohmann::ordered_json> ReportOnModel(const std::string& path, bool tensors);

}  // namespace qanat::tools
