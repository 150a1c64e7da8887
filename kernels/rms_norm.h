// out[r, i] = in[r, i] / sqrt(mean(in[r, :]^2) + eps) * weight[i], or out[r, i] + that.
//
// Squares are added into 16 lanes (input i to lane i % 16), which are then added as a tree: lane l gets l +
// 8, then l + 4, l + 2, l + 1. The factor 1 / sqrt(...) is rounded once and multiplies before the weight
// does.
#pragma once

#include <cstdint>

namespace qanat::kernels {

struct RmsNormParams {
  const float* in = nullptr;
  const float* weight = nullptr;  // [cols]
  float* out = nullptr;           // may be `in`
  int64_t in_stride = 0;
  int64_t out_stride = 0;
  int cols = 0;
  float eps = 0;
  bool accumulate = false;  // onto `out`, which is not `in` then
};

}  // namespace qanat::kernels
