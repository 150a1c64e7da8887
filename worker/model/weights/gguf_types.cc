#include "worker/model/weights/gguf_types.h"

#include "common/base/check.h"

namespace qanat::model {
namespace {

using backend::DType;

// Ids and block layouts as the GGUF format defines them.
constexpr TypeTraits kTypes[] = {
    {0, DType::kF32, "F32", 1, 4},        {1, DType::kF16, "F16", 1, 2},
    {2, DType::kQ4_0, "Q4_0", 32, 18},    {3, DType::kQ4_1, "Q4_1", 32, 20},
    {6, DType::kQ5_0, "Q5_0", 32, 22},    {7, DType::kQ5_1, "Q5_1", 32, 24},
    {8, DType::kQ8_0, "Q8_0", 32, 34},    {10, DType::kQ2_K, "Q2_K", 256, 84},
    {11, DType::kQ3_K, "Q3_K", 256, 110}, {12, DType::kQ4_K, "Q4_K", 256, 144},
    {13, DType::kQ5_K, "Q5_K", 256, 176}, {14, DType::kQ6_K, "Q6_K", 256, 210},
    {30, DType::kBF16, "BF16", 1, 2},
};

}  // namespace

const TypeTraits* FindType(uint32_t gguf_id) {
  for (const TypeTraits& traits : kTypes) {
    if (traits.gguf_id == gguf_id) return &traits;
  }
  return nullptr;
}

const TypeTraits& TraitsOf(DType type) {
  for (const TypeTraits& traits : kTypes) {
    if (traits.type == type) return traits;
  }
  QANAT_CHECK(false) << "a DType without traits: " << static_cast<int>(type);
  return kTypes[0];
}

}  // namespace qanat::model
