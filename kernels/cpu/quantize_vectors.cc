#include "kernels/cpu/paths.h"
#include "kernels/cpu/vectors.h"

namespace qanat::kernels::QANAT_KERNEL_ISA {
namespace {

constexpr uint32_t kInfinityBits = 0x7F800000u;
constexpr uint32_t kSmallestAmaxBits = (127u - 100u) << 23;  // 2^-100

void QuantizeGroup(const float* x, QuantizedCell& cell) {
  const Floats low = LoadUnaligned(x);
  const Floats high = LoadUnaligned(x + 16);
  const uint32_t amax_bits = LargestMagnitudeBits(low, high);
  const bool finite = amax_bits < kInfinityBits;
  const bool has_codes = finite && amax_bits >= kSmallestAmaxBits;
  const float amax = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(amax_bits))));
  const Floats factor = Broadcast(127.0f / amax);
  const Lanes keep = FirstLanes(has_codes ? kVectorLanes : 0);
  const __m128i q_low = RoundToBytes(Select(keep, Mul(low, factor), Zero()));
  const __m128i q_high = RoundToBytes(Select(keep, Mul(high, factor), Zero()));
  _mm_store_si128(reinterpret_cast<__m128i*>(cell.q), q_low);
  _mm_store_si128(reinterpret_cast<__m128i*>(cell.q + 16), q_high);
  const int32_t sum_low = SumOfBytes(q_low);
  const int32_t sum_high = SumOfBytes(q_high);
  cell.scale = has_codes ? amax / 127.0f : finite ? 0.0f : __builtin_nanf("");
  cell.sum = static_cast<float>(sum_low + sum_high);
  cell.minus_8_sum = -8 * (sum_low + sum_high);
  cell.minus_16_sum = -16 * (sum_low + sum_high);
  cell.minus_128_sum = -128 * (sum_low + sum_high);
  cell.minus_32_half_sum[0] = -32 * sum_low;
  cell.minus_32_half_sum[1] = -32 * sum_high;
}

}  // namespace

void VectorQuantize(const QuantizeParams& params, int row_begin, int row_end) {
  const int64_t num_tiles = params.out.num_tiles;
  for (int row = row_begin; row < row_end; ++row) {
    const float* in = params.in + row * params.stride;
    QuantizedCell* cells = params.out.cells + row / kRowBlock * num_tiles * kRowBlock + row % kRowBlock;
    for (int64_t tile = 0; tile < num_tiles; ++tile)
      QuantizeGroup(in + tile * kTileDepth, cells[tile * kRowBlock]);
  }
}

}  // namespace qanat::kernels::QANAT_KERNEL_ISA
