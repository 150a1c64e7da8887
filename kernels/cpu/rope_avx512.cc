#include <immintrin.h>

#include "kernels/cpu/paths.h"

namespace qanat::kernels {
namespace {

// The lanes of 16 that exist when `count` are left.
__mmask16 FirstLanes(int count) { return count >= 16 ? 0xFFFF : static_cast<__mmask16>((1u << count) - 1); }

// Pairs (2i, 2i + 1): eight of them a vector.
void RotateInterleaved(const float* cos, const float* sin, int head_dim, float* head) {
  const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  for (int i = 0; i < head_dim; i += 16) {
    const __m512 c = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(cos + i / 2)));
    const __m512 s = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(sin + i / 2)));
    const __m512 x = _mm512_loadu_ps(head + i);
    const __m512 straight = _mm512_mul_ps(x, c);
    const __m512 crossed = _mm512_mul_ps(_mm512_permute_ps(x, 0xB1), s);
    const __m512 sum = _mm512_add_ps(straight, crossed);
    _mm512_storeu_ps(head + i, _mm512_mask_sub_ps(sum, 0x5555, straight, crossed));
  }
}

// Pairs (i, i + head_dim / 2).
void RotateHalves(const float* cos, const float* sin, int head_dim, float* head) {
  const int half = head_dim / 2;
  for (int i = 0; i < half; i += 16) {
    const __mmask16 lanes = FirstLanes(half - i);
    const __m512 c = _mm512_maskz_loadu_ps(lanes, cos + i);
    const __m512 s = _mm512_maskz_loadu_ps(lanes, sin + i);
    const __m512 a = _mm512_maskz_loadu_ps(lanes, head + i);
    const __m512 b = _mm512_maskz_loadu_ps(lanes, head + half + i);
    _mm512_mask_storeu_ps(head + i, lanes, _mm512_sub_ps(_mm512_mul_ps(a, c), _mm512_mul_ps(b, s)));
    _mm512_mask_storeu_ps(head + half + i, lanes, _mm512_add_ps(_mm512_mul_ps(a, s), _mm512_mul_ps(b, c)));
  }
}

// FloatToBf16 of 16 values, each in the low half of its lane.
__m512i ToBf16(__m512 values) {
  const __m512i bits = _mm512_castps_si512(values);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  return _mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16);
}

void StoreKey(const float* key, int head_dim, int token, std::byte* k) {
  // Two dimensions are one 32-bit element; the next two are a line of 16 elements on.
  const __m256i lines = _mm256_set_epi32(112, 96, 80, 64, 48, 32, 16, 0);
  for (int i = 0; i < head_dim; i += 16) {
    const __m256i pairs = _mm512_cvtepi32_epi16(ToBf16(_mm512_loadu_ps(key + i)));
    _mm256_i32scatter_epi32(k + i / 2 * 64 + token * 4, lines, pairs, 4);
  }
}

void StoreValue(const float* value, int head_dim, int token, std::byte* v) {
  // Only this token's half of every 32 bits is written: the other belongs to its neighbour.
  const bool odd = token % 2 != 0;
  const __mmask32 halves = odd ? 0xAAAAAAAAu : 0x55555555u;
  std::byte* line = v + static_cast<int64_t>(token / 2) * head_dim * 4;
  for (int i = 0; i < head_dim; i += 16) {
    const __m512i low = ToBf16(_mm512_loadu_ps(value + i));
    _mm512_mask_storeu_epi16(line + i * 4, halves, odd ? _mm512_slli_epi32(low, 16) : low);
  }
}

}  // namespace

void Avx512RopeStore(const RopeStoreParams& params, int row_begin, int row_end) {
  const int head_dim = params.kv.head_dim;
  const int num_kv_heads = params.kv.num_kv_heads;
  const auto rotate = params.interleaved ? RotateInterleaved : RotateHalves;
  for (int row = row_begin; row < row_end; ++row) {
    const int position = params.first_position + row;
    const int64_t angle = static_cast<int64_t>(position) * (head_dim / 2);
    float* heads = params.qkv + row * params.stride;
    for (int head = 0; head < params.num_heads + num_kv_heads; ++head) {
      rotate(params.cos + angle, params.sin + angle, head_dim, heads + head * head_dim);
    }
    const float* keys = heads + params.num_heads * head_dim;
    const float* values = keys + num_kv_heads * head_dim;
    const int token = position % kBlockTokens;
    for (int head = 0; head < num_kv_heads; ++head) {
      std::byte* k = KvHead(params.kv, KvElement::kBF16, params.block_table[position / kBlockTokens], head);
      StoreKey(keys + head * head_dim, head_dim, token, k);
      StoreValue(values + head * head_dim, head_dim, token, k + KvHalfBytes(KvElement::kBF16, head_dim));
    }
  }
}

}  // namespace qanat::kernels
