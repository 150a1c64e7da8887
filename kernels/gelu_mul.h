// out[r, i] = g / (1 + 2^x) * gate_up[r, ffn + i], g = gate_up[r, i]: GELU by its usual approximation,
// g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3))), since (1 + tanh z) / 2 = 1 / (1 + e^(-2 z)).
// x = g * (kGeluCubic * (g * g) + kGeluLinear), each product and sum rounded.
#pragma once

#include <cstdint>

namespace qanat::kernels {

// -2 log2(e) sqrt(2 / pi), and that times 0.044715.
constexpr float kGeluLinear = -2.30220818f;
constexpr float kGeluCubic = -0.102943240f;

struct GeluMulParams {
  const float* gate_up = nullptr;  // [rows, 2 * ffn]
  float* out = nullptr;            // [rows, ffn]
  int ffn = 0;
};

}  // namespace qanat::kernels
