// 2^x, one definition for attention, SiLU and (by the same steps and constants, written out again in
// worker/sampling, which may not include kernels) sampling. Every step is one IEEE operation, so that scalar,
// AVX-512 and other processors give the same bits:
//   x < -126: the result is 0. x > 127: x is taken as 127. NaN stays NaN.
//   t = x + 1.5 * 2^23;  n = t - 1.5 * 2^23                                  (x rounded to the nearest even
//   integer) f = x - n                                                               (exact, in [-1/2, 1/2])
//   p = fma(f, fma(f, fma(f, fma(f, fma(f, fma(f, c6, c5), c4), c3), c2), c1), 1)
//   result = p * 2^n                                                         (2^n from t's low bits; exact)
// c1..c6 minimise the largest relative error on [-1/2, 1/2] with p(0) = 1 held fixed (Lawson's iteration in
// 60-digit arithmetic, then rounded to float32): 2e-9 before rounding, under 1.2e-7 in float32. Integers are
// exact.
#pragma once

#include <cstdint>

#include "kernels/half.h"

namespace qanat::kernels {

constexpr float kLog2E = 0x1.715476p+0f;

constexpr float kExp2Round = 0x1.8p+23f;
constexpr float kExp2Min = -126.0f;
constexpr float kExp2Max = 127.0f;
constexpr float kExp2C1 = 0x1.62e430p-1f;
constexpr float kExp2C2 = 0x1.ebfbdcp-3f;
constexpr float kExp2C3 = 0x1.c6aee8p-5f;
constexpr float kExp2C4 = 0x1.3b2d4cp-7f;
constexpr float kExp2C5 = 0x1.5f3e88p-10f;
constexpr float kExp2C6 = 0x1.41fc40p-13f;

static inline float Exp2(float x) {
  const float bounded = kExp2Max < x ? kExp2Max : x;
  const float t = bounded + kExp2Round;
  const float f = bounded - (t - kExp2Round);
  float p = __builtin_fmaf(f, kExp2C6, kExp2C5);
  p = __builtin_fmaf(f, p, kExp2C4);
  p = __builtin_fmaf(f, p, kExp2C3);
  p = __builtin_fmaf(f, p, kExp2C2);
  p = __builtin_fmaf(f, p, kExp2C1);
  p = __builtin_fmaf(f, p, 1.0f);
  const uint32_t exponent = (FloatBits(t) - FloatBits(kExp2Round) + 127u) << 23;
  return x < kExp2Min ? 0.0f : p * BitsToFloat(exponent);
}

}  // namespace qanat::kernels
