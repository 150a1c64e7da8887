// out[r, i] = g / (1 + 2^(-g * log2 e)) * gate_up[r, ffn + i], g = gate_up[r, i].
#pragma once

#include <cstdint>

namespace qanat::kernels {

struct SiluMulParams {
  const float* gate_up = nullptr;  // [rows, 2 * ffn]
  float* out = nullptr;            // [rows, ffn]
  int ffn = 0;
};

}  // namespace qanat::kernels
