// The reference path: float32 throughout, plain loops over 16 lanes.
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/paths.h"
#include "kernels/cpu/unroll.h"
#include "kernels/exp2.h"

namespace qanat::kernels::QANAT_KERNEL_ISA {
namespace {

constexpr int kLanes = kPanelColumns;
constexpr int kChunk = 64;  // inputs that are summed before they join the total

void DequantizeTile(const FormatFacts& facts, const std::byte* values, const std::byte* scales, int64_t tile,
                    float* out) {
  TileLines lines;
  TileScales scale;
  UnpackLines(facts, values + tile * facts.tile_value_bytes, lines);
  UnpackScales(facts, scales, tile, scale);
  for (int k = 0; k < kTileDepth; ++k) {
    const uint32_t* line = lines.line[k / 4];
    const float* d = scale.d[k / 16];
    const float* m = scale.m[k / 16];
    for (int lane = 0; lane < kLanes; ++lane) {
      const int32_t code = static_cast<int32_t>(line[lane] >> (k % 4 * 8) & 0xFFu) - facts.zero_point;
      out[k * kLanes + lane] = d[lane] * static_cast<float>(code) + m[lane];
    }
  }
}

// A panel as out[cols][16].
void DequantizePanel(const PackedMatrix& matrix, int panel, float* out) {
  const FormatFacts facts = FactsOf(matrix.format);
  const std::byte* values = PanelValues(matrix, panel);
  if (!facts.quantized) {
    const int64_t count = static_cast<int64_t>(matrix.cols) * kLanes;
    for (int64_t i = 0; i < count; ++i) out[i] = LoadWeight(matrix.format, values, i);
    return;
  }
  const std::byte* scales = PanelScales(matrix, panel);
  for (int64_t tile = 0; tile < matrix.num_tiles; ++tile) {
    DequantizeTile(facts, values, scales, tile, out + tile * kTileDepth * kLanes);
  }
}

// 16 lanes as one value: an optimiser left to find them in loops over rows and inputs may turn the loops
// around.
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

void LoadLanes(const float* from, Lanes& to) { std::memcpy(&to, from, sizeof(to)); }

// One panel times `kRows` rows: out[row].
template <int kRows>
void PanelTimesRows(const float* panel, int cols, const float* in, int64_t stride, Lanes (&out)[kRows]) {
  for (int row = 0; row < kRows; ++row) out[row] = Lanes{};
  for (int begin = 0; begin < cols; begin += kChunk) {
    const int end = begin + kChunk < cols ? begin + kChunk : cols;
    Lanes chunk[kRows] = {};
    for (int k = begin; k < end; ++k) {
      Lanes weight;
      LoadLanes(panel + static_cast<int64_t>(k) * kLanes, weight);
      QANAT_UNROLL
      for (int row = 0; row < kRows; ++row) chunk[row] += weight * in[row * stride + k];
    }
    for (int row = 0; row < kRows; ++row) out[row] += chunk[row];
  }
}

template <int kRows>
void PanelRows(const GemmParams& params, const float* panel_values, int panel, int row) {
  Lanes sums[kRows];
  PanelTimesRows<kRows>(panel_values, params.weight->cols, params.in + row * params.in_stride,
                        params.in_stride, sums);
  const int first = panel * kLanes;
  const int columns = params.weight->rows - first < kLanes ? params.weight->rows - first : kLanes;
  for (int r = 0; r < kRows; ++r) {
    float* out = params.out + (row + r) * params.out_stride + first;
    for (int lane = 0; lane < columns; ++lane) {
      out[lane] = params.accumulate ? out[lane] + sums[r][lane] : sums[r][lane];
    }
  }
}

float Dot(const float* a, const float* b, int count) {
  Lanes lane = {};
  for (int i = 0; i < count; i += kLanes) {
    Lanes x, y;
    LoadLanes(a + i, x);
    LoadLanes(b + i, y);
    lane += x * y;
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

const float* HeadKeys(const AttentionParams& params, int key, int kv_head) {
  const std::byte* head = KvHead(params.kv, KvElement::kF32, params.block_table[key / kBlockTokens], kv_head);
  return reinterpret_cast<const float*>(head) + static_cast<int64_t>(key % kBlockTokens) * params.kv.head_dim;
}

// The visible keys of the tile that begins at `first_key`, for one query head.
void Tile(const AttentionParams& params, int kv_head, const float* q, int first_key, SeenKeys seen,
          AttentionPartial& state) {
  const int head_dim = params.kv.head_dim;
  const int64_t values_after_keys = KvHalfBytes(KvElement::kF32, head_dim) / 4;
  float score[kTileKeys];
  float max = state.max;
  for (int j = seen.begin; j < seen.end; ++j) {
    score[j] = Dot(q, HeadKeys(params, first_key + j, kv_head), head_dim) * (params.scale * kLog2E);
    max = max < score[j] ? score[j] : max;
  }
  const float correction = Exp2(state.max - max);
  state.max = max;
  state.sum *= correction;
  for (int i = 0; i < head_dim; ++i) state.out[i] *= correction;
  for (int j = seen.begin; j < seen.end; ++j) {
    const float p = Exp2(score[j] - max);
    const float* value = HeadKeys(params, first_key + j, kv_head) + values_after_keys;
    state.sum += p;
    for (int i = 0; i < head_dim; ++i) state.out[i] += p * value[i];
  }
}

void Partition(const AttentionParams& params, int kv_head, int head, int row, int partition,
               AttentionPartial& state) {
  const float* q = params.q + row * params.q_stride + static_cast<int64_t>(head) * params.kv.head_dim;
  state.max = BitsToFloat(0xFF800000u);
  state.sum = 0;
  for (int i = 0; i < params.kv.head_dim; ++i) state.out[i] = 0;
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
  total.sum = total.sum * a + next.sum * b;
  for (int i = 0; i < head_dim; ++i) total.out[i] = total.out[i] * a + next.out[i] * b;
}

void WriteOut(const AttentionParams& params, int head, int row, const AttentionPartial& total) {
  const int head_dim = params.kv.head_dim;
  float* out = params.out + row * params.out_stride + static_cast<int64_t>(head) * head_dim;
  const float factor = 1.0f / total.sum;
  for (int i = 0; i < head_dim; ++i) out[i] = total.out[i] * factor;
}

}  // namespace

void ReferenceGemm(const GemmParams& params, const GemmRange& range, std::byte* scratch) {
  float* values = reinterpret_cast<float*>(scratch);
  for (int panel = range.panel_begin; panel < range.panel_end; ++panel) {
    DequantizePanel(*params.weight, panel, values);
    int row = range.row_begin;
    for (; row + 4 <= range.row_end; row += 4) PanelRows<4>(params, values, panel, row);
    for (; row < range.row_end; ++row) PanelRows<1>(params, values, panel, row);
  }
}

void ReferenceAttendPartition(const AttentionParams& params, int kv_head, int row, int partition,
                              AttentionPartial* partials) {
  const int group = params.num_heads / params.kv.num_kv_heads;
  for (int i = 0; i < group; ++i)
    Partition(params, kv_head, kv_head * group + i, row, partition, partials[i]);
}

void ReferenceMerge(const AttentionParams& params, int kv_head, int row, const AttentionPartial* partials) {
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

void ReferenceAttend(const AttentionParams& params, int kv_head, int row_begin, int row_end) {
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

}  // namespace qanat::kernels::QANAT_KERNEL_ISA
