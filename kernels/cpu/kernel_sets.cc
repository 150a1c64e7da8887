#include "kernels/kernel_set.h"

#include "kernels/cpu/paths.h"

namespace qanat::kernels {
namespace {

void Avx512Gemm(const GemmParams& params, const GemmRange& range, std::byte* scratch) {
  if (FactsOf(params.weight->format).quantized) {
    Avx512QuantizedGemm(params, range, scratch);
  } else {
    Avx512FloatGemm(params, range);
  }
}

}  // namespace

bool CpuHasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vnni");
  return has;
}

const KernelSet& ScalarKernels() {
  static constexpr KernelSet set = {
      .name = "scalar",
      .kv_element = KvElement::kBF16,
      .quantizes_activations = true,
      .quantize = base::Quantize,
      .gemm = ScalarGemm,
      .rms_norm = base::RmsNorm,
      .silu_mul = base::SiluMul,
      .gelu_mul = base::GeluMul,
      .rope_store = base::RopeStoreBf16,
      .attend = ScalarAttend,
      .attend_partition = ScalarAttendPartition,
      .merge_partitions = ScalarMerge,
  };
  return set;
}

const KernelSet& Avx512Kernels() {
  static constexpr KernelSet set = {
      .name = "avx512vnni",
      .kv_element = KvElement::kBF16,
      .quantizes_activations = true,
      .quantize = Avx512Quantize,
      .gemm = Avx512Gemm,
      .rms_norm = avx512::RmsNorm,
      .silu_mul = avx512::SiluMul,
      .gelu_mul = avx512::GeluMul,
      .rope_store = Avx512RopeStore,
      .attend = Avx512Attend,
      .attend_partition = Avx512AttendPartition,
      .merge_partitions = Avx512Merge,
  };
  return set;
}

const KernelSet& ReferenceKernels() {
  static constexpr KernelSet plain = {
      .name = "reference",
      .kv_element = KvElement::kF32,
      .quantizes_activations = false,
      .quantize = base::Quantize,
      .gemm = base::ReferenceGemm,
      .rms_norm = base::RmsNorm,
      .silu_mul = base::SiluMul,
      .gelu_mul = base::GeluMul,
      .rope_store = base::RopeStoreF32,
      .attend = base::ReferenceAttend,
      .attend_partition = base::ReferenceAttendPartition,
      .merge_partitions = base::ReferenceMerge,
  };
  static constexpr KernelSet wide = {
      .name = "reference",
      .kv_element = KvElement::kF32,
      .quantizes_activations = false,
      .quantize = avx512::Quantize,
      .gemm = avx512::ReferenceGemm,
      .rms_norm = avx512::RmsNorm,
      .silu_mul = avx512::SiluMul,
      .gelu_mul = avx512::GeluMul,
      .rope_store = avx512::RopeStoreF32,
      .attend = avx512::ReferenceAttend,
      .attend_partition = avx512::ReferenceAttendPartition,
      .merge_partitions = avx512::ReferenceMerge,
  };
  return CpuHasAvx512() ? wide : plain;
}

}  // namespace qanat::kernels
