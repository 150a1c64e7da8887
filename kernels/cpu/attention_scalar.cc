// The arithmetic of attention.h written out for one query head at a time: what the vector path must equal.
#include "kernels/cpu/paths.h"
#include "kernels/exp2.h"

namespace qanat::kernels {
namespace {

// One key or value of a head in the cache: element i is base[i / 2 * pair_step + i % 2 * step].
const uint16_t* Key(const AttentionParams& params, int kv_head, int key) {
  const std::byte* head =
      KvHead(params.kv, KvElement::kBF16, params.block_table[key / kBlockTokens], kv_head);
  return reinterpret_cast<const uint16_t*>(head) + key % kBlockTokens * 2;
}

const uint16_t* Value(const AttentionParams& params, int kv_head, int key) {
  const int token = key % kBlockTokens;
  const std::byte* head =
      KvHead(params.kv, KvElement::kBF16, params.block_table[key / kBlockTokens], kv_head);
  return reinterpret_cast<const uint16_t*>(head + KvHalfBytes(KvElement::kBF16, params.kv.head_dim)) +
         static_cast<int64_t>(token / 2) * params.kv.head_dim * 2 + token % 2;
}

float Score(const float* q, const uint16_t* key, int head_dim) {
  float score = 0;
  for (int i = 0; i < head_dim; ++i) {
    score = __builtin_fmaf(q[i], Bf16ToFloat(key[i / 2 * kBlockTokens * 2 + i % 2]), score);
  }
  return score;
}

float TreeSum(const float (&p)[kTileKeys]) {
  float lane[16];
  for (int i = 0; i < 16; ++i) lane[i] = (p[i] + p[i + 16]) + (p[i + 32] + p[i + 48]);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}

void Tile(const AttentionParams& params, int kv_head, const float* q, int first_key, SeenKeys seen,
          AttentionPartial& state) {
  const int head_dim = params.kv.head_dim;
  float p[kTileKeys] = {};
  float max = state.max;
  for (int j = seen.begin; j < seen.end; ++j) {
    p[j] = Score(q, Key(params, kv_head, first_key + j), head_dim);
    max = max < p[j] ? p[j] : max;
  }
  for (int j = seen.begin; j < seen.end; ++j) p[j] = Exp2(p[j] - max);
  const float correction = Exp2(state.max - max);
  state.max = max;
  state.sum = __builtin_fmaf(state.sum, correction, TreeSum(p));
  for (int i = 0; i < head_dim; ++i) state.out[i] *= correction;
  for (int j = seen.begin; j < seen.end; ++j) {
    const uint16_t* value = Value(params, kv_head, first_key + j);
    for (int i = 0; i < head_dim; ++i) {
      state.out[i] = __builtin_fmaf(p[j], Bf16ToFloat(value[i * 2]), state.out[i]);
    }
  }
}

void Partition(const AttentionParams& params, int kv_head, int head, int row, int partition,
               AttentionPartial& state) {
  const int head_dim = params.kv.head_dim;
  const float* source = params.q + row * params.q_stride + static_cast<int64_t>(head) * head_dim;
  const float factor = params.scale * kLog2E;
  float q[kMaxHeadDim];
  for (int i = 0; i < head_dim; ++i) q[i] = source[i] * factor;
  state.max = BitsToFloat(0xFF800000u);
  state.sum = 0;
  for (int i = 0; i < head_dim; ++i) state.out[i] = 0;
  for (int key = partition * kPartitionKeys; key < (partition + 1) * kPartitionKeys; key += kTileKeys) {
    const SeenKeys seen = SeenOf(params, params.first_position + row, key);
    if (seen.begin < seen.end) Tile(params, kv_head, q, key, seen, state);
  }
}

void MergeInto(AttentionPartial& total, const AttentionPartial& next, int head_dim) {
  const float max = total.max < next.max ? next.max : total.max;
  const float a = Exp2(total.max - max);
  const float b = Exp2(next.max - max);
  total.max = max;
  total.sum = __builtin_fmaf(total.sum, a, next.sum * b);
  for (int i = 0; i < head_dim; ++i) total.out[i] = __builtin_fmaf(total.out[i], a, next.out[i] * b);
}

void WriteOut(const AttentionParams& params, int head, int row, const AttentionPartial& total) {
  const int head_dim = params.kv.head_dim;
  float* out = params.out + row * params.out_stride + static_cast<int64_t>(head) * head_dim;
  const float factor = 1.0f / total.sum;
  for (int i = 0; i < head_dim; ++i) out[i] = total.out[i] * factor;
}

}  // namespace

void ScalarAttendPartition(const AttentionParams& params, int kv_head, int row, int partition,
                           AttentionPartial* partials) {
  const int group = params.num_heads / params.kv.num_kv_heads;
  for (int i = 0; i < group; ++i)
    Partition(params, kv_head, kv_head * group + i, row, partition, partials[i]);
}

void ScalarMerge(const AttentionParams& params, int kv_head, int row, const AttentionPartial* partials) {
  const int group = params.num_heads / params.kv.num_kv_heads;
  for (int i = 0; i < group; ++i) {
    const int first = FirstPartition(params, params.first_position + row);
    AttentionPartial total = partials[first * group + i];
    for (int p = first + 1; p < NumPartitions(params.first_position + row); ++p) {
      MergeInto(total, partials[p * group + i], params.kv.head_dim);
    }
    WriteOut(params, kv_head * group + i, row, total);
  }
}

void ScalarAttend(const AttentionParams& params, int kv_head, int row_begin, int row_end) {
  const int group = params.num_heads / params.kv.num_kv_heads;
  for (int row = row_begin; row < row_end; ++row) {
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const int first = FirstPartition(params, params.first_position + row);
      AttentionPartial total;
      Partition(params, kv_head, head, row, first, total);
      for (int p = first + 1; p < NumPartitions(params.first_position + row); ++p) {
        AttentionPartial next;
        Partition(params, kv_head, head, row, p, next);
        MergeInto(total, next, params.kv.head_dim);
      }
      WriteOut(params, head, row, total);
    }
  }
}

}  // namespace qanat::kernels
