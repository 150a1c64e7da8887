#include "kernels/dequantize.h"

#include "kernels/cpu/lanes.h"
#include "kernels/embed.h"

namespace qanat::kernels {

void DequantizeRow(const PackedMatrix& matrix, int row, float* out) {
  const FormatFacts facts = FactsOf(matrix.format);
  const std::byte* values = PanelValues(matrix, row / kPanelColumns);
  const std::byte* scales = PanelScales(matrix, row / kPanelColumns);
  const int lane = row % kPanelColumns;
  if (!facts.quantized) {
    for (int64_t k = 0; k < matrix.cols; ++k) {
      out[k] = LoadWeight(matrix.format, values, k * kPanelColumns + lane);
    }
    return;
  }
  const int group_depth = kTileDepth / facts.scale_groups;
  for (int64_t tile = 0; tile < matrix.num_tiles; ++tile, values += facts.tile_value_bytes) {
    for (int group = 0; group < facts.scale_groups; ++group) {
      const float d = ScaleAt(facts, scales, tile, group, lane, 0);
      const float m = facts.has_minimum ? ScaleAt(facts, scales, tile, group, lane, 1) : 0.0f;
      for (int k = group * group_depth; k < (group + 1) * group_depth; ++k) {
        *out++ = d * static_cast<float>(CodeAt(facts, values, k, lane) - facts.zero_point) + m;
      }
    }
  }
}

void Embed(const EmbedParams& params, int row_begin, int row_end) {
  const int cols = params.table->cols;
  for (int row = row_begin; row < row_end; ++row) {
    float* out = params.out + static_cast<int64_t>(row) * cols;
    DequantizeRow(*params.table, params.ids[row], out);
    for (int i = 0; i < cols; ++i) out[i] *= params.scale;
  }
}

}  // namespace qanat::kernels
