// The storage formats of GGUF tensors that this project knows, as one table.
#pragma once

#include <cstdint>
#include <string_view>

#include "worker/backend/backend.h"

namespace qanat::model {

// A row of `cols` elements takes cols / block_elements blocks of block_bytes bytes each.
struct TypeTraits {
  uint32_t gguf_id;
  backend::DType type;
  std::string_view name;  // as people write it: "Q4_1"
  int block_elements;
  int block_bytes;
};

// Null for an id that GGUF does not define or that this project does not know.
const TypeTraits* FindType(uint32_t gguf_id);
const TypeTraits& TraitsOf(backend::DType type);

}  // namespace qanat::model
