// The functions that kernel_sets.cc makes paths of. Files named *_lanes.cc are compiled three times, for any
// x86-64 (namespace base), with AVX2 (avx2) and with AVX-512 (avx512): the same plain loops, the same bits,
// other speed. Files named *_vectors.cc (vectors.h) are compiled for the latter two.
#pragma once

#include "kernels/kernel_set.h"

namespace qanat::kernels {

#define QANAT_DECLARE_LANES(isa)                                                                    \
  namespace isa {                                                                                   \
  void Quantize(const QuantizeParams& params, int row_begin, int row_end);                          \
  void RmsNorm(const RmsNormParams& params, int row_begin, int row_end);                            \
  void SiluMul(const SiluMulParams& params, int row_begin, int row_end);                            \
  void GeluMul(const GeluMulParams& params, int row_begin, int row_end);                            \
  void RopeStoreBf16(const RopeStoreParams& params, int row_begin, int row_end);                    \
  void RopeStoreF32(const RopeStoreParams& params, int row_begin, int row_end);                     \
  void ReferenceGemm(const GemmParams& params, const GemmRange& range, std::byte* scratch);         \
  void ReferenceAttend(const AttentionParams& params, int kv_head, int row_begin, int row_end);     \
  void ReferenceAttendPartition(const AttentionParams& params, int kv_head, int row, int partition, \
                                AttentionPartial* partials);                                        \
  void ReferenceMerge(const AttentionParams& params, int kv_head, int row,                          \
                      const AttentionPartial* partials);                                            \
  }
QANAT_DECLARE_LANES(base)
QANAT_DECLARE_LANES(avx2)
QANAT_DECLARE_LANES(avx512)
#undef QANAT_DECLARE_LANES

#define QANAT_DECLARE_VECTORS(isa)                                                                   \
  namespace isa {                                                                                    \
  void VectorQuantize(const QuantizeParams& params, int row_begin, int row_end);                     \
  void FloatGemm(const GemmParams& params, const GemmRange& range);                                  \
  void Attend(const AttentionParams& params, int kv_head, int row_begin, int row_end);               \
  void AttendPartition(const AttentionParams& params, int kv_head, int row, int partition,           \
                       AttentionPartial* partials);                                                  \
  void Merge(const AttentionParams& params, int kv_head, int row, const AttentionPartial* partials); \
  }
QANAT_DECLARE_VECTORS(avx2)
QANAT_DECLARE_VECTORS(avx512)
#undef QANAT_DECLARE_VECTORS

void ScalarGemm(const GemmParams& params, const GemmRange& range, std::byte* scratch);
void ScalarAttend(const AttentionParams& params, int kv_head, int row_begin, int row_end);
void ScalarAttendPartition(const AttentionParams& params, int kv_head, int row, int partition,
                           AttentionPartial* partials);
void ScalarMerge(const AttentionParams& params, int kv_head, int row, const AttentionPartial* partials);

void Avx512RopeStore(const RopeStoreParams& params, int row_begin, int row_end);
void Avx512QuantizedGemm(const GemmParams& params, const GemmRange& range, std::byte* scratch);

void Avx2QuantizedGemm(const GemmParams& params, const GemmRange& range);

}  // namespace qanat::kernels
