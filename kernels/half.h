// 16-bit floats in plain integer arithmetic, so that every path rounds alike. The vector instructions for
// bf16 are not used on purpose: they flush denormals.
#pragma once

#include <cstdint>
#include <cstring>

namespace qanat::kernels {

static inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static inline float BitsToFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// IEEE binary16 to binary32, exact. A denormal half becomes a normal float by one exact subtraction.
static inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7FFFu;
  if (magnitude >= 0x7C00u) return BitsToFloat(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
  if (magnitude >= 0x0400u) return BitsToFloat(sign | ((magnitude << 13) + (112u << 23)));
  const float value = BitsToFloat((113u << 23) | (magnitude << 13)) - BitsToFloat(113u << 23);
  return BitsToFloat(sign | FloatBits(value));
}

static inline float Bf16ToFloat(uint16_t value) { return BitsToFloat(static_cast<uint32_t>(value) << 16); }

// Round to nearest even; NaN stays a (quiet) NaN.
static inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = FloatBits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace qanat::kernels
