// The softmax of one tile of keys in vectors of 16: the steps of attention.h. Internal linkage, as in all
// headers that files with other instruction sets than the project's include.
#pragma once

#include <immintrin.h>

#include "kernels/attention.h"
#include "kernels/cpu/unroll.h"
#include "kernels/exp2.h"

namespace qanat::kernels {

constexpr int kTileBlocks = kTileKeys / kBlockTokens;

static inline __m512 Exp2Vector(__m512 x) {
  // The operand order lets NaN through.
  const __m512 bounded = _mm512_min_ps(_mm512_set1_ps(kExp2Max), x);
  const __m512 t = _mm512_add_ps(bounded, _mm512_set1_ps(kExp2Round));
  const __m512 f = _mm512_sub_ps(bounded, _mm512_sub_ps(t, _mm512_set1_ps(kExp2Round)));
  __m512 p = _mm512_fmadd_ps(f, _mm512_set1_ps(kExp2C6), _mm512_set1_ps(kExp2C5));
  p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(kExp2C4));
  p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(kExp2C3));
  p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(kExp2C2));
  p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(kExp2C1));
  p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(1.0f));
  const __m512i bias = _mm512_set1_epi32(static_cast<int>(FloatBits(kExp2Round) - 127u));
  const __m512i exponent = _mm512_slli_epi32(_mm512_sub_epi32(_mm512_castps_si512(t), bias), 23);
  const __mmask16 keep = _mm512_cmp_ps_mask(x, _mm512_set1_ps(kExp2Min), _CMP_NLT_UQ);
  return _mm512_maskz_mul_ps(keep, p, _mm512_castsi512_ps(exponent));
}

// The tree of attention.h: lane l gets l + 8, then l + 4, l + 2, l + 1.
static inline float TreeSum(__m512 v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

static inline float TreeMax(__m512 v) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// The lanes of block `b` below key `end` of the tile.
static inline __mmask16 LanesBelow(int end, int b) {
  const int left = end - b * kBlockTokens;
  return left >= kBlockTokens ? 0xFFFF : left > 0 ? static_cast<__mmask16>((1u << left) - 1) : 0;
}

static inline __mmask16 Visible(SeenKeys seen, int b) {
  return LanesBelow(seen.end, b) & static_cast<__mmask16>(~LanesBelow(seen.begin, b));
}

// kWhole: all 64 keys are visible, which needs no masks.
template <bool kWhole>
static inline float TileMax(SeenKeys seen, const float* p) {
  const __m512 lowest = _mm512_set1_ps(BitsToFloat(0xFF800000u));
  __m512 max = lowest;
  QANAT_UNROLL
  for (int b = 0; b < kTileBlocks; ++b) {
    const __mmask16 visible = kWhole ? 0xFFFF : Visible(seen, b);
    max = _mm512_max_ps(max, _mm512_mask_loadu_ps(lowest, visible, p + b * kBlockTokens));
  }
  return TreeMax(max);
}

// Scores become probabilities; returns their sum.
template <bool kWhole>
static inline float Exponentiate(SeenKeys seen, float max, float* p) {
  __m512 lanes[kTileBlocks];
  QANAT_UNROLL
  for (int b = 0; b < kTileBlocks; ++b) {
    const __m512 score = _mm512_sub_ps(_mm512_load_ps(p + b * kBlockTokens), _mm512_set1_ps(max));
    const __mmask16 visible = kWhole ? 0xFFFF : Visible(seen, b);
    lanes[b] = _mm512_maskz_mov_ps(visible, Exp2Vector(score));
    _mm512_store_ps(p + b * kBlockTokens, lanes[b]);
  }
  return TreeSum(_mm512_add_ps(_mm512_add_ps(lanes[0], lanes[1]), _mm512_add_ps(lanes[2], lanes[3])));
}

}  // namespace qanat::kernels
