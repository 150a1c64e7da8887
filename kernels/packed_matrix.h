// A weight matrix as the kernels read it.
//
// Outputs ("columns" of the product) go in panels of 16. A panel holds the codes of all its tiles, one after
// the other, and behind them the scales of all its blocks; every tile is 16 columns x tile_depth inputs. The
// last panel is padded with columns of zeros. Within a tile, c being the column and k the input:
//   F32, F16, BF16   one input: element [c]
//   quantised        unsigned codes, weight + zero_point, thought of as eight lines of 64 bytes,
//                    [k / 4][c][k % 4], which VNNI reads; by code_bits:
//     8              the eight lines
//     4              four lines: line 2 i in the low nibbles of the i-th, line 2 i + 1 in the high ones, so
//                    that `v & 15` and `v >> 4` are two lines
//     5              four lines as for 4, then a line of upper bits: bit i of a byte belongs to line i
//     6              four lines as for 4, then two lines of upper bit pairs: pair i of the first belongs to
//                    line i, pair i of the second to line 4 + i
// Scales of a block, in this order:
//   two levels       for each of its tiles int8 sc[scale_groups][16] and, with a minimum, the negated
//                    int8 -m[scale_groups][16]
//   all              fp16 d[16] and, with a minimum, fp16 m[16] (K-quants: the file's dmin)
// A group's scale is d, or d * sc; its minimum m, or dmin * -m: exact in float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/weight_format.h"

namespace qanat::kernels {

// Of a tile whose codes are cut into nibbles and upper bits.
constexpr int kNibbleBytes = kPanelColumns * kTileDepth / 2;

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

// What the scales of one block take.
static constexpr int BlockScaleBytes(const FormatFacts& facts) {
  return facts.tiles_a_block * facts.tile_scale_bytes + facts.block_scale_bytes;
}

// A panel starts on a cache line.
static constexpr int64_t PanelBytes(WeightFormat format, int cols) {
  const FormatFacts facts = FactsOf(format);
  const int64_t tiles = cols / facts.tile_depth;
  return (tiles * facts.tile_value_bytes + tiles / facts.tiles_a_block * BlockScaleBytes(facts) + 63) / 64 *
         64;
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

// Within a panel's scales: the lower level of a tile, and the fp16 scales of its block.
static inline int64_t TileScalesAt(const FormatFacts& facts, int64_t tile) {
  return tile / facts.tiles_a_block * BlockScaleBytes(facts) +
         tile % facts.tiles_a_block * facts.tile_scale_bytes;
}

static inline int64_t BlockScalesAt(const FormatFacts& facts, int64_t tile) {
  return tile / facts.tiles_a_block * BlockScaleBytes(facts) + facts.tiles_a_block * facts.tile_scale_bytes;
}

}  // namespace qanat::kernels
