#include <immintrin.h>

#include "kernels/cpu/paths.h"

namespace qanat::kernels {
namespace {

constexpr uint32_t kInfinityBits = 0x7F800000u;
constexpr uint32_t kSmallestAmaxBits = (127u - 100u) << 23;  // 2^-100

// Sum of 16 int8 as 32-bit lanes of four.
int32_t SumOfCodes(__m128i codes) {
  const __m128i ones = _mm_set1_epi8(1);
  const __m128i fours = _mm_dpbusd_epi32(_mm_setzero_si128(), ones, codes);
  const __m128i pairs = _mm_add_epi32(fours, _mm_shuffle_epi32(fours, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 0xB1)));
}

void QuantizeGroup(const float* x, QuantizedCell& cell) {
  const __m512 low = _mm512_loadu_ps(x);
  const __m512 high = _mm512_loadu_ps(x + 16);
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  const uint32_t amax_bits =
      _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                                               _mm512_and_si512(_mm512_castps_si512(high), magnitude)));
  const bool finite = amax_bits < kInfinityBits;
  const bool has_codes = finite && amax_bits >= kSmallestAmaxBits;
  const float amax = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(amax_bits))));
  const __m512 factor = _mm512_set1_ps(127.0f / amax);
  const __mmask16 keep = has_codes ? 0xFFFF : 0;
  const __m128i q_low = _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(low, factor)));
  const __m128i q_high = _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(high, factor)));
  _mm_store_si128(reinterpret_cast<__m128i*>(cell.q), q_low);
  _mm_store_si128(reinterpret_cast<__m128i*>(cell.q + 16), q_high);
  const int32_t sum_low = SumOfCodes(q_low);
  const int32_t sum_high = SumOfCodes(q_high);
  cell.scale = has_codes ? amax / 127.0f : finite ? 0.0f : __builtin_nanf("");
  cell.sum = static_cast<float>(sum_low + sum_high);
  cell.minus_8_sum = -8 * (sum_low + sum_high);
  cell.minus_16_sum = -16 * (sum_low + sum_high);
  cell.minus_128_sum = -128 * (sum_low + sum_high);
  cell.minus_32_half_sum[0] = -32 * sum_low;
  cell.minus_32_half_sum[1] = -32 * sum_high;
}

}  // namespace

void Avx512Quantize(const QuantizeParams& params, int row_begin, int row_end) {
  const int64_t num_tiles = params.out.num_tiles;
  for (int row = row_begin; row < row_end; ++row) {
    const float* in = params.in + row * params.stride;
    QuantizedCell* cells = params.out.cells + row / kRowBlock * num_tiles * kRowBlock + row % kRowBlock;
    for (int64_t tile = 0; tile < num_tiles; ++tile)
      QuantizeGroup(in + tile * kTileDepth, cells[tile * kRowBlock]);
  }
}

}  // namespace qanat::kernels
