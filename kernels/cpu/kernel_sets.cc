#include "kernels/kernel_set.h"

#include <cpuid.h>

#include "kernels/cpu/paths.h"

namespace qanat::kernels {
namespace {

void Avx512Gemm(const GemmParams& params, const GemmRange& range, std::byte* scratch) {
  if (FactsOf(params.weight->format).quantized) {
    Avx512QuantizedGemm(params, range, scratch);
  } else {
    avx512::FloatGemm(params, range);
  }
}

void Avx2Gemm(const GemmParams& params, const GemmRange& range, std::byte* /*scratch*/) {
  if (FactsOf(params.weight->format).quantized) {
    Avx2QuantizedGemm(params, range);
  } else {
    avx2::FloatGemm(params, range);
  }
}

// __builtin_cpu_supports does not know this one in every compiler.
bool CpuHasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

bool CpuHasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && CpuHasF16c();
  return has;
}

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

const KernelSet& Avx2Kernels() {
  static constexpr KernelSet set = {
      .name = "avx2",
      .kv_element = KvElement::kBF16,
      .quantizes_activations = true,
      .quantize = avx2::VectorQuantize,
      .gemm = Avx2Gemm,
      .rms_norm = avx2::RmsNorm,
      .silu_mul = avx2::SiluMul,
      .gelu_mul = avx2::GeluMul,
      .rope_store = avx2::RopeStoreBf16,
      .attend = avx2::Attend,
      .attend_partition = avx2::AttendPartition,
      .merge_partitions = avx2::Merge,
  };
  return set;
}

const KernelSet& Avx512Kernels() {
  static constexpr KernelSet set = {
      .name = "avx512vnni",
      .kv_element = KvElement::kBF16,
      .quantizes_activations = true,
      .quantize = avx512::VectorQuantize,
      .gemm = Avx512Gemm,
      .rms_norm = avx512::RmsNorm,
      .silu_mul = avx512::SiluMul,
      .gelu_mul = avx512::GeluMul,
      .rope_store = Avx512RopeStore,
      .attend = avx512::Attend,
      .attend_partition = avx512::AttendPartition,
      .merge_partitions = avx512::Merge,
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
  static constexpr KernelSet with_avx2 = {
      .name = "reference",
      .kv_element = KvElement::kF32,
      .quantizes_activations = false,
      .quantize = avx2::Quantize,
      .gemm = avx2::ReferenceGemm,
      .rms_norm = avx2::RmsNorm,
      .silu_mul = avx2::SiluMul,
      .gelu_mul = avx2::GeluMul,
      .rope_store = avx2::RopeStoreF32,
      .attend = avx2::ReferenceAttend,
      .attend_partition = avx2::ReferenceAttendPartition,
      .merge_partitions = avx2::ReferenceMerge,
  };
  static constexpr KernelSet with_avx512 = {
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
  return CpuHasAvx512() ? with_avx512 : CpuHasAvx2() ? with_avx2 : plain;
}

KernelSet WithFloatCache(const KernelSet& kernels) {
  const KernelSet& reference = ReferenceKernels();
  KernelSet set = kernels;
  set.kv_element = reference.kv_element;
  set.rope_store = reference.rope_store;
  set.attend = reference.attend;
  set.attend_partition = reference.attend_partition;
  set.merge_partitions = reference.merge_partitions;
  return set;
}

}  // namespace qanat::kernels
