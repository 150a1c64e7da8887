// The paths: each is one implementation of every operation, chosen once, at start.
#pragma once

#include <cstddef>

#include "kernels/attention.h"
#include "kernels/gelu_mul.h"
#include "kernels/gemm.h"
#include "kernels/quantize.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/silu_mul.h"

namespace qanat::kernels {

// Every function works on the range of rows it is given, on the calling thread, and allocates nothing.
struct KernelSet {
  const char* name = "";
  KvElement kv_element = KvElement::kBF16;
  // Whether products with quantised weights read QuantizedRows; otherwise they read float activations.
  bool quantizes_activations = true;

  void (*quantize)(const QuantizeParams&, int row_begin, int row_end) = nullptr;
  // `scratch`: GemmScratchBytes, 64-byte aligned, one a thread.
  void (*gemm)(const GemmParams&, const GemmRange&, std::byte* scratch) = nullptr;
  void (*rms_norm)(const RmsNormParams&, int row_begin, int row_end) = nullptr;
  void (*silu_mul)(const SiluMulParams&, int row_begin, int row_end) = nullptr;
  void (*gelu_mul)(const GeluMulParams&, int row_begin, int row_end) = nullptr;
  void (*rope_store)(const RopeStoreParams&, int row_begin, int row_end) = nullptr;
  // All query heads of `kv_head`.
  void (*attend)(const AttentionParams&, int kv_head, int row_begin, int row_end) = nullptr;
  // The same in two steps, for few rows with many keys: partials is [num_heads / num_kv_heads].
  void (*attend_partition)(const AttentionParams&, int kv_head, int row, int partition,
                           AttentionPartial* partials) = nullptr;
  // partials is [NumPartitions(position)][num_heads / num_kv_heads].
  void (*merge_partitions)(const AttentionParams&, int kv_head, int row,
                           const AttentionPartial* partials) = nullptr;
};

// Any x86-64. Bit for bit what Avx2Kernels and Avx512Kernels give.
const KernelSet& ScalarKernels();
// REQUIRES: CpuHasAvx2().
const KernelSet& Avx2Kernels();
// REQUIRES: CpuHasAvx512().
const KernelSet& Avx512Kernels();
// Float32 over dequantised weights and a float32 cache: what the others are measured against.
const KernelSet& ReferenceKernels();
// The path with a float32 cache: its attention, and what stores keys and values, are the reference's.
KernelSet WithFloatCache(const KernelSet& kernels);

// AVX2, FMA and F16C, on the CPU and enabled by the system.
bool CpuHasAvx2();
// AVX-512 F, BW, VL, DQ and VNNI, on the CPU and enabled by the system.
bool CpuHasAvx512();

}  // namespace qanat::kernels
