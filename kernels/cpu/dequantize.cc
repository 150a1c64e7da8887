#include "kernels/dequantize.h"

#include <cstring>

#include "kernels/embed.h"
#include "kernels/half.h"

namespace qanat::kernels {
namespace {

uint16_t ReadHalf(const std::byte* source) {
  uint16_t half;
  std::memcpy(&half, source, sizeof(half));
  return half;
}

float ReadFloat(WeightFormat format, const std::byte* source) {
  if (format == WeightFormat::kF16) return HalfToFloat(ReadHalf(source));
  if (format == WeightFormat::kBF16) return Bf16ToFloat(ReadHalf(source));
  float value;
  std::memcpy(&value, source, sizeof(value));
  return value;
}

// One column's scale and minimum for inputs [16 half, 16 half + 16) of a tile.
struct ColumnScale {
  float d = 0;
  float m = 0;
};

ColumnScale ReadScale(WeightFormat format, const std::byte* scales, int half, int lane) {
  if (format == WeightFormat::kQ6_K) {
    const float sub = static_cast<float>(static_cast<int8_t>(scales[half * kPanelColumns + lane]));
    return {HalfToFloat(ReadHalf(scales + 2 * kPanelColumns + lane * 2)) * sub, 0};
  }
  ColumnScale scale{HalfToFloat(ReadHalf(scales + lane * 2)), 0};
  if (format == WeightFormat::kQ4_1) scale.m = HalfToFloat(ReadHalf(scales + 2 * kPanelColumns + lane * 2));
  return scale;
}

int ReadCode(bool nibbles, const std::byte* tile, int k, int lane) {
  if (!nibbles) return static_cast<int>(tile[k / 4 * 64 + lane * 4 + k % 4]);
  return static_cast<int>(tile[k / 8 * 64 + lane * 4 + k % 4]) >> (k % 8 / 4 * 4) & 15;
}

// One column of one tile.
void DequantizeColumn(WeightFormat format, const std::byte* tile, const std::byte* scales, int lane,
                      float* out) {
  const FormatFacts facts = FactsOf(format);
  const bool nibbles = facts.tile_value_bytes == 256;
  for (int half = 0; half < 2; ++half) {
    const ColumnScale scale = ReadScale(format, scales, half, lane);
    for (int k = half * 16; k < half * 16 + 16; ++k) {
      const int code = ReadCode(nibbles, tile, k, lane) - facts.zero_point;
      out[k] = scale.d * static_cast<float>(code) + scale.m;
    }
  }
}

}  // namespace

void DequantizeRow(const PackedMatrix& matrix, int row, float* out) {
  const FormatFacts facts = FactsOf(matrix.format);
  const std::byte* values = PanelValues(matrix, row / kPanelColumns);
  const std::byte* scales = PanelScales(matrix, row / kPanelColumns);
  const int lane = row % kPanelColumns;
  if (!facts.quantized) {
    for (int64_t k = 0; k < matrix.cols; ++k) {
      out[k] = ReadFloat(matrix.format, values + (k * kPanelColumns + lane) * facts.block_bytes);
    }
    return;
  }
  for (int64_t tile = 0; tile < matrix.num_tiles; ++tile) {
    DequantizeColumn(matrix.format, values + tile * facts.tile_value_bytes,
                     scales + tile * facts.tile_scale_bytes, lane, out + tile * kTileDepth);
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
