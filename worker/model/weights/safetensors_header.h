// The JSON header of a safetensors file, read into entries. Only safetensors.cc uses it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/model/weights/safetensors.h"

namespace qanat::model {

// A tensor as the header describes it: of the right form, its numbers not yet held against each other.
struct SafeTensorEntry {
  SafeTensor tensor;  // without data
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafeTensorsHeader {
  std::vector<SafeTensorEntry> entries;  // in the order of the header
  std::vector<std::pair<std::string, std::string>> metadata;
};

// `file` names the file in errors, see SafeTensorsFile. No key of the metadata comes twice; whether a tensor
// does is for the caller to see.
absl::StatusOr<SafeTensorsHeader> ReadSafeTensorsHeader(std::string_view file, std::string_view json);

}  // namespace qanat::model
