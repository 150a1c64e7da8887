// A weight matrix as the kernels read it.
//
// Outputs ("columns" of the product) go in panels of 16. A panel holds the codes of all its tiles, one after
// the other, and behind them the scales of all its tiles; every tile is 16 columns x tile_depth inputs. The
// last panel is padded with columns of zeros. Within a tile, c being the column and k the input:
//   F32, F16, BF16   one input: element [c]
//   Q8_0, Q6_K       eight lines of 64 bytes, [k / 4][c][k % 4]: an unsigned code, weight + 128 or + 32
//   Q4_0, Q4_1       four lines of 64 bytes, [k / 8][c][k % 4]: inputs with k % 8 < 4 in the low nibble, the
//                    others in the high one, so that `v & 15` and `v >> 4` are two lines of the kind above
//   scales           Q8_0, Q4_0: fp16 d[16]. Q4_1: fp16 d[16], fp16 m[16]. Q6_K: int8 sc[2][16], fp16 d[16]
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/weight_format.h"

namespace qanat::kernels {

constexpr int kPanelColumns = 16;
constexpr int kTileDepth = 32;  // of the quantised formats

// A view; the bytes belong to whoever allocated them, 64-byte aligned.
struct PackedMatrix {
  WeightFormat format = WeightFormat::kF32;
  int rows = 0;  // outputs
  int cols = 0;  // inputs
  int num_tiles = 0;
  int64_t panel_bytes = 0;
  const std::byte* data = nullptr;
};

static constexpr int NumPanels(int rows) { return (rows + kPanelColumns - 1) / kPanelColumns; }

// A panel starts on a cache line.
static constexpr int64_t PanelBytes(WeightFormat format, int cols) {
  const FormatFacts facts = FactsOf(format);
  const int64_t tiles = cols / facts.tile_depth;
  return (tiles * (facts.tile_value_bytes + facts.tile_scale_bytes) + 63) / 64 * 64;
}

// REQUIRES: cols is a multiple of the format's block_values.
static inline PackedMatrix MakePackedMatrix(WeightFormat format, int rows, int cols, const std::byte* data) {
  return {format, rows, cols, cols / FactsOf(format).tile_depth, PanelBytes(format, cols), data};
}

static inline int64_t PackedBytes(const PackedMatrix& matrix) {
  return NumPanels(matrix.rows) * matrix.panel_bytes;
}

static inline const std::byte* PanelValues(const PackedMatrix& matrix, int panel) {
  return matrix.data + panel * matrix.panel_bytes;
}

static inline const std::byte* PanelScales(const PackedMatrix& matrix, int panel) {
  return PanelValues(matrix, panel) +
         static_cast<int64_t>(matrix.num_tiles) * FactsOf(matrix.format).tile_value_bytes;
}

}  // namespace qanat::kernels
