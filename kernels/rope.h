// Rotary position embedding of queries and keys, and the way of keys and values into the cache.
//
// A pair (a, b) at rotation (c, s) becomes (a * c - b * s, a * s + b * c), each product and sum rounded.
// bf16 caches take the result rounded to nearest even.
#pragma once

#include <cstdint>

#include "kernels/kv_layer.h"

namespace qanat::kernels {

// Rows are consecutive positions of one sequence; row r is at first_position + r.
struct RopeStoreParams {
  float* qkv = nullptr;  // [rows, (num_heads + 2 * num_kv_heads) * head_dim]; queries are rotated in place
  int64_t stride = 0;
  int num_heads = 0;
  const float* cos = nullptr;  // [max_positions, head_dim / 2]
  const float* sin = nullptr;
  bool interleaved = false;  // pairs (2i, 2i + 1), otherwise (i, i + head_dim / 2)
  KvLayer kv;
  const int32_t* block_table = nullptr;  // physical block of positions 16 i .. 16 i + 15
  int first_position = 0;
};

}  // namespace qanat::kernels
