// Vectors of 16 floats for files named *_vectors.cc, which are compiled once for AVX-512 and once for AVX2,
// where a vector is two registers: the same operations in the same order, the same bits. In the namespace of
// the instruction set, so that the linker does not share copies.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace qanat::kernels::QANAT_KERNEL_ISA {

constexpr int kVectorLanes = 16;

#if defined(__AVX512F__)

// How many vectors a loop can keep in registers as accumulators.
constexpr int kAccumulators = 24;

using Floats = __m512;
using Lanes = __mmask16;  // a choice of lanes

static inline Floats Zero() { return _mm512_setzero_ps(); }
static inline Floats Broadcast(float x) { return _mm512_set1_ps(x); }
// REQUIRES: 64-byte alignment, as Store, LoadHalves and LoadPairs do.
static inline Floats Load(const float* from) { return _mm512_load_ps(from); }
static inline Floats LoadUnaligned(const float* from) { return _mm512_loadu_ps(from); }
static inline Floats LoadSome(Lanes lanes, const float* from) { return _mm512_maskz_loadu_ps(lanes, from); }
static inline void Store(float* to, Floats x) { _mm512_store_ps(to, x); }
static inline void StoreUnaligned(float* to, Floats x) { _mm512_storeu_ps(to, x); }
static inline void StoreSome(Lanes lanes, float* to, Floats x) { _mm512_mask_storeu_ps(to, lanes, x); }

static inline Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
static inline Floats Sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
static inline Floats Mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
// a * b + c, rounded once.
static inline Floats Fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
// b where one of the two is NaN.
static inline Floats Max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
static inline Floats Min(Floats a, Floats b) { return _mm512_min_ps(a, b); }

// The first `count` lanes; none or all where there are not as many.
static inline Lanes FirstLanes(int count) {
  return count >= kVectorLanes ? 0xFFFF : count > 0 ? static_cast<Lanes>((1u << count) - 1) : 0;
}
static inline Lanes Without(Lanes a, Lanes b) { return a & static_cast<Lanes>(~b); }
static inline Floats Select(Lanes lanes, Floats yes, Floats no) { return _mm512_mask_mov_ps(no, lanes, yes); }
static inline Floats ZeroWhereLess(Floats x, Floats bound, Floats value) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, bound, _CMP_NLT_UQ), value);
}

// 2^n from the low bits of n + 1.5 * 2^23, as exp2.h has it; `bias` is the integer at which the result is 1.
static inline Floats PowerFromBits(Floats t, uint32_t bias) {
  const __m512i shifted = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(static_cast<int>(bias)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(shifted, 23));
}

// 16 fp16.
static inline Floats LoadHalves(const std::byte* from) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
}
// 16 bf16.
static inline Floats LoadBf16(const std::byte* from) {
  const __m256i halves = _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
// 16 pairs of bf16.
static inline void LoadPairs(const std::byte* from, Floats& even, Floats& odd) {
  const __m512i pairs = _mm512_load_si512(from);
  even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  odd = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))));
}

// Rounded to nearest even. REQUIRES: |x| < 128.
static inline __m128i RoundToBytes(Floats x) { return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)); }

static inline __m256 LowHalf(Floats x) { return _mm512_castps512_ps256(x); }
static inline __m256 HighHalf(Floats x) { return _mm512_extractf32x8_ps(x, 1); }

#else

constexpr int kAccumulators = 6;

struct Floats {
  __m256 low;
  __m256 high;
};
struct Lanes {
  __m256i low;
  __m256i high;
};

static inline Floats Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline Floats Broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline Floats Load(const float* from) { return {_mm256_load_ps(from), _mm256_load_ps(from + 8)}; }
static inline Floats LoadUnaligned(const float* from) {
  return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}
static inline Floats LoadSome(Lanes lanes, const float* from) {
  return {_mm256_maskload_ps(from, lanes.low), _mm256_maskload_ps(from + 8, lanes.high)};
}
static inline void Store(float* to, Floats x) {
  _mm256_store_ps(to, x.low);
  _mm256_store_ps(to + 8, x.high);
}
static inline void StoreUnaligned(float* to, Floats x) {
  _mm256_storeu_ps(to, x.low);
  _mm256_storeu_ps(to + 8, x.high);
}
static inline void StoreSome(Lanes lanes, float* to, Floats x) {
  _mm256_maskstore_ps(to, lanes.low, x.low);
  _mm256_maskstore_ps(to + 8, lanes.high, x.high);
}

static inline Floats Add(Floats a, Floats b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
static inline Floats Sub(Floats a, Floats b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
static inline Floats Mul(Floats a, Floats b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
static inline Floats Fma(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
static inline Floats Max(Floats a, Floats b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
static inline Floats Min(Floats a, Floats b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}

static inline Lanes FirstLanes(int count) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_cmpgt_epi32(_mm256_set1_epi32(count), index),
          _mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8), index)};
}
static inline Lanes Without(Lanes a, Lanes b) {
  return {_mm256_andnot_si256(b.low, a.low), _mm256_andnot_si256(b.high, a.high)};
}
static inline Floats Select(Lanes lanes, Floats yes, Floats no) {
  return {_mm256_blendv_ps(no.low, yes.low, _mm256_castsi256_ps(lanes.low)),
          _mm256_blendv_ps(no.high, yes.high, _mm256_castsi256_ps(lanes.high))};
}
static inline Floats ZeroWhereLess(Floats x, Floats bound, Floats value) {
  return {_mm256_and_ps(_mm256_cmp_ps(x.low, bound.low, _CMP_NLT_UQ), value.low),
          _mm256_and_ps(_mm256_cmp_ps(x.high, bound.high, _CMP_NLT_UQ), value.high)};
}

static inline Floats PowerFromBits(Floats t, uint32_t bias) {
  const __m256i start = _mm256_set1_epi32(static_cast<int>(bias));
  const __m256i low = _mm256_sub_epi32(_mm256_castps_si256(t.low), start);
  const __m256i high = _mm256_sub_epi32(_mm256_castps_si256(t.high), start);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(low, 23)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 23))};
}

static inline Floats LoadHalves(const std::byte* from) {
  const auto halves = reinterpret_cast<const __m128i*>(from);
  return {_mm256_cvtph_ps(_mm_load_si128(halves)), _mm256_cvtph_ps(_mm_load_si128(halves + 1))};
}
static inline Floats LoadBf16(const std::byte* from) {
  const auto halves = reinterpret_cast<const __m128i*>(from);
  const __m256i low = _mm256_cvtepu16_epi32(_mm_load_si128(halves));
  const __m256i high = _mm256_cvtepu16_epi32(_mm_load_si128(halves + 1));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
}
static inline void LoadPairs(const std::byte* from, Floats& even, Floats& odd) {
  const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
  const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(from) + 1);
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xFFFF0000u));
  even = {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
  odd = {_mm256_castsi256_ps(_mm256_and_si256(low, mask)), _mm256_castsi256_ps(_mm256_and_si256(high, mask))};
}

static inline __m128i RoundToBytes(Floats x) {
  const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
  // Packing works on each half of a register by itself.
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xD8);
  return _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
}

static inline __m256 LowHalf(Floats x) { return x.low; }
static inline __m256 HighHalf(Floats x) { return x.high; }

#endif

// The bits of the largest magnitude, NaN the largest of all.
static inline uint32_t LargestMagnitudeBits(Floats a, Floats b) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  const auto bits = [&](__m256 x) { return _mm256_and_si256(_mm256_castps_si256(x), magnitude); };
  const __m256i eight = _mm256_max_epu32(_mm256_max_epu32(bits(LowHalf(a)), bits(HighHalf(a))),
                                         _mm256_max_epu32(bits(LowHalf(b)), bits(HighHalf(b))));
  const __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4E));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_shuffle_epi32(two, 0xB1))));
}

static inline int32_t SumOfBytes(__m128i bytes) {
  const __m128i pairs = _mm_maddubs_epi16(_mm_set1_epi8(1), bytes);
  const __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi16(1));
  const __m128i two = _mm_add_epi32(fours, _mm_shuffle_epi32(fours, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

// Lane l gets l + 8, then l + 4, l + 2, l + 1.
static inline float TreeSum(Floats x) {
  const __m256 eight = _mm256_add_ps(LowHalf(x), HighHalf(x));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

static inline float TreeMax(Floats x) {
  const __m256 eight = _mm256_max_ps(LowHalf(x), HighHalf(x));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

}  // namespace qanat::kernels::QANAT_KERNEL_ISA
