// Causal attention over the paged cache.
//
// What one (row, head) computes depends on its position and on keys and values alone, never on how rows are
// grouped, chunked or spread over threads:
//   q' = q * (scale * log2 e), one rounding each
//   the visible keys are first .. position; first is 0, or max(0, position - window + 1)
//   keys are cut into partitions of 256 and these into tiles of 64, at absolute positions; partitions and
//   tiles without a visible key are left out
//   per partition, m = -inf, l = 0, o = 0; for each tile, j over its visible keys:
//     s_j = fma chain over the dimensions in ascending order;  m' = max(m, max s_j)
//     p_j = exp2(s_j - m');  c = exp2(m - m')
//     l = fma(l, c, sum of p): 64 lanes, invisible ones 0, as (t0 + t16) + (t32 + t48), then the tree 8, 4,
//     2, 1 o = o * c; o = fma(p_j, v_j, o) for j ascending
//   partitions merge in ascending order: M' = max(M, m), a = exp2(M - M'), b = exp2(m - M'),
//     L = fma(L, a, l * b), O = fma(O, a, o * b)
//   out = O * (1 / L)
// Keys and values of invisible tokens, which may be NaN, take part in nothing.
// (The reference path has the same structure over float32 keys and values, without fma.)
#pragma once

#include <cstdint>

#include "kernels/kv_layer.h"

namespace qanat::kernels {

constexpr int kTileKeys = 64;
constexpr int kPartitionKeys = 256;

// Rows are consecutive positions of one sequence; row r is at first_position + r. Its keys are in the cache.
struct AttentionParams {
  const float* q = nullptr;  // [rows, num_heads * head_dim], `q_stride` floats between rows
  int64_t q_stride = 0;
  float* out = nullptr;  // [rows, num_heads * head_dim]
  int64_t out_stride = 0;
  int num_heads = 0;  // a multiple of the KV heads; head h reads KV head h / (num_heads / num_kv_heads)
  KvLayer kv;
  const int32_t* block_table = nullptr;
  int first_position = 0;
  float scale = 1;
  int window = 0;  // how many keys a row sees at most, its own the last; 0: all
};

// What a partition leaves for the merge, for one query head.
struct AttentionPartial {
  float max;
  float sum;
  alignas(64) float out[kMaxHeadDim];  // unnormalised
};

static inline int NumPartitions(int position) { return position / kPartitionKeys + 1; }

// The first key that a row sees, and its partition.
static inline int FirstKey(const AttentionParams& params, int position) {
  return params.window > 0 && position >= params.window ? position - params.window + 1 : 0;
}
static inline int FirstPartition(const AttentionParams& params, int position) {
  return FirstKey(params, position) / kPartitionKeys;
}

// The keys of a tile that a row sees: [begin, end) of 0 .. 63, counted from the tile's first.
struct SeenKeys {
  int begin;
  int end;  // at most `begin`: none
};

static inline SeenKeys SeenOf(const AttentionParams& params, int position, int first_key) {
  const int begin = FirstKey(params, position) - first_key;
  const int end = position + 1 - first_key;
  return {begin > 0 ? begin : 0, end < kTileKeys ? end : kTileKeys};
}

}  // namespace qanat::kernels
