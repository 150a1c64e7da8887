#include "kernels/repack.h"

#include <cstring>

#include "kernels/cpu/lanes.h"

namespace qanat::kernels {
namespace {

// One column's 32 inputs of a tile, unpacked from the file: unsigned codes and what scales them.
struct TileColumn {
  uint8_t codes[kTileDepth] = {};
  uint16_t d = 0;
  uint16_t m = 0;
  int8_t sub_scales[2] = {};
  int8_t negated_sub_minima[2] = {};
};

int ByteAt(const std::byte* source, int at) { return static_cast<int>(source[at]); }

uint16_t ReadHalf(const std::byte* source) {
  uint16_t half;
  std::memcpy(&half, source, sizeof(half));
  return half;
}

// Blocks of 32: fp16 d, with a minimum fp16 m; 5 bits: 32 upper bits in the inputs' order; nibbles, the
// inputs 0..15 in the low ones, 16..31 in the high ones; or (Q8_0) signed bytes.
void ReadBlock32(const FormatFacts& facts, const std::byte* block, TileColumn& column) {
  column.d = ReadHalf(block);
  block += 2;
  if (facts.code_bits == 8) {
    for (int i = 0; i < kTileDepth; ++i) column.codes[i] = static_cast<uint8_t>(block[i]) ^ 0x80;
    return;
  }
  if (facts.has_minimum) {
    column.m = ReadHalf(block);
    block += 2;
  }
  if (facts.code_bits == 5) {
    for (int i = 0; i < kTileDepth; ++i) column.codes[i] = (ByteAt(block, i / 8) >> (i % 8) & 1) << 4;
    block += 4;
  }
  for (int i = 0; i < 16; ++i) {
    column.codes[i] |= ByteAt(block, i) & 15;
    column.codes[i + 16] |= ByteAt(block, i) >> 4;
  }
}

// Blocks of 256. `tile` is which 32 of them; half = tile / 4 and run = tile % 4 count the tiles of each 128.

// Q2_K: 16 bytes of scale (low nibble) and minimum (high nibble), 64 of bit pairs, fp16 d, fp16 dmin. The
// four runs of each half sit in the bit pairs of the same 32 bytes.
void ReadQ2K(const std::byte* block, int tile, TileColumn& column) {
  for (int i = 0; i < kTileDepth; ++i) {
    column.codes[i] = ByteAt(block, 16 + tile / 4 * 32 + i) >> (tile % 4 * 2) & 3;
  }
  for (int group = 0; group < 2; ++group) {
    const int both = ByteAt(block, tile * 2 + group);
    column.sub_scales[group] = static_cast<int8_t>(both & 15);
    column.negated_sub_minima[group] = static_cast<int8_t>(-(both >> 4));
  }
  column.d = ReadHalf(block + 80);
  column.m = ReadHalf(block + 82);
}

// Q3_K: 32 bytes of upper bits (tile's bit of byte i belongs to input i), 64 of bit pairs as in Q2_K, 12 of
// scales: 16 low nibbles, those of 0..7 in the low halves of 8 bytes, 8..15 in the high ones, then upper bit
// pairs, that of j in byte j % 4; 32 is subtracted. fp16 d.
void ReadQ3K(const std::byte* block, int tile, TileColumn& column) {
  for (int i = 0; i < kTileDepth; ++i) {
    const int low = ByteAt(block, 32 + tile / 4 * 32 + i) >> (tile % 4 * 2) & 3;
    column.codes[i] = static_cast<uint8_t>(low | (ByteAt(block, i) >> tile & 1) << 2);
  }
  const std::byte* scales = block + 96;
  for (int group = 0; group < 2; ++group) {
    const int j = tile * 2 + group;
    const int low = ByteAt(scales, j % 8) >> (j / 8 * 4) & 15;
    const int high = ByteAt(scales, 8 + j % 4) >> (j / 4 * 2) & 3;
    column.sub_scales[group] = static_cast<int8_t>((low | high << 4) - 32);
  }
  column.d = ReadHalf(block + 108);
}

// Q4_K and Q5_K: fp16 d, fp16 dmin, 12 bytes of scales and minima of 6 bits, Q5_K: 32 bytes of upper bits (as
// in Q3_K), 128 of nibbles: tiles 2 i and 2 i + 1 in the low and high ones of the same 32 bytes. Scales and
// minima 0..3 are the low 6 bits of bytes 0..3 and 4..7; of 4..7 the lower nibbles are those of bytes 8..11,
// and the upper bit pairs lie above the 6 bits of the others.
void ReadQ45K(const FormatFacts& facts, const std::byte* block, int tile, TileColumn& column) {
  const std::byte* upper = block + 16;
  const std::byte* nibbles = facts.code_bits == 5 ? upper + 32 : upper;
  for (int i = 0; i < kTileDepth; ++i) {
    const int low = ByteAt(nibbles, tile / 2 * 32 + i) >> (tile % 2 * 4) & 15;
    const int high = facts.code_bits == 5 ? ByteAt(upper, i) >> tile & 1 : 0;
    column.codes[i] = static_cast<uint8_t>(low | high << 4);
  }
  const std::byte* packed = block + 4;
  int scale = ByteAt(packed, tile % 4);
  int minimum = ByteAt(packed, tile % 4 + 4);
  if (tile < 4) {
    scale &= 63;
    minimum &= 63;
  } else {
    const int low = ByteAt(packed, tile % 4 + 8);
    scale = (low & 15) | scale >> 6 << 4;
    minimum = low >> 4 | minimum >> 6 << 4;
  }
  column.sub_scales[0] = static_cast<int8_t>(scale);
  column.negated_sub_minima[0] = static_cast<int8_t>(-minimum);
  column.d = ReadHalf(block);
  column.m = ReadHalf(block + 2);
}

// Q6_K: 128 bytes of low nibbles, 64 of upper bit pairs, 16 int8 scales, fp16 d. Each half takes 64 and 32
// bytes of the first two; its four runs sit in nibbles and bit pairs of the same bytes.
void ReadQ6K(const std::byte* block, int tile, TileColumn& column) {
  const int half = tile / 4;
  const int run = tile % 4;
  for (int i = 0; i < kTileDepth; ++i) {
    const int nibble = ByteAt(block, half * 64 + run % 2 * 32 + i) >> (run / 2 * 4) & 15;
    const int pair = ByteAt(block, 128 + half * 32 + i) >> (run * 2) & 3;
    column.codes[i] = static_cast<uint8_t>(nibble | pair << 4);
  }
  std::memcpy(column.sub_scales, block + 192 + tile * 2, 2);
  column.d = ReadHalf(block + 208);
}

TileColumn ReadColumn(WeightFormat format, const std::byte* row, int tile) {
  const FormatFacts facts = FactsOf(format);
  const std::byte* block = row + static_cast<int64_t>(tile / facts.tiles_a_block) * facts.block_bytes;
  const int tile_in_block = tile % facts.tiles_a_block;
  TileColumn column;
  switch (format) {
    case WeightFormat::kQ2_K:
      ReadQ2K(block, tile_in_block, column);
      break;
    case WeightFormat::kQ3_K:
      ReadQ3K(block, tile_in_block, column);
      break;
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      ReadQ45K(facts, block, tile_in_block, column);
      break;
    case WeightFormat::kQ6_K:
      ReadQ6K(block, tile_in_block, column);
      break;
    default:
      ReadBlock32(facts, block, column);
  }
  return column;
}

void WriteCodes(const FormatFacts& facts, const TileColumn& column, int lane, std::byte* tile) {
  const int lines = facts.tile_value_bytes / 64;
  for (int line = 0; line < lines; ++line) std::memset(tile + line * 64 + lane * 4, 0, 4);
  for (int k = 0; k < kTileDepth; ++k) {
    const int at = lane * 4 + k % 4;
    const int code = column.codes[k];
    if (facts.code_bits == 8) {
      tile[k / 4 * 64 + at] = static_cast<std::byte>(code);
      continue;
    }
    tile[k / 8 * 64 + at] |= static_cast<std::byte>((code & 15) << (k % 8 / 4 * 4));
    if (facts.code_bits == 4) continue;
    const UpperBits upper = UpperBitsOf(facts, k / 4);
    tile[upper.plane_at + at] |= static_cast<std::byte>(code >> 4 << upper.shift);
  }
}

// Every tile of a block writes the block's scales anew.
void WriteScales(const FormatFacts& facts, const TileColumn& column, int64_t tile, int lane,
                 std::byte* scales) {
  std::byte* lower = scales + TileScalesAt(facts, tile) + lane;
  std::byte* block = scales + BlockScalesAt(facts, tile) + lane * 2;
  const int groups = facts.two_levels ? facts.scale_groups : 0;
  for (int group = 0; group < groups; ++group) {
    std::memcpy(lower + group * kPanelColumns, &column.sub_scales[group], 1);
    if (facts.has_minimum) {
      std::memcpy(lower + (groups + group) * kPanelColumns, &column.negated_sub_minima[group], 1);
    }
  }
  std::memcpy(block, &column.d, 2);
  if (facts.has_minimum) std::memcpy(block + 2 * kPanelColumns, &column.m, 2);
}

void RepackFloats(const PackedMatrix& matrix, const std::byte* source, std::byte* panel, int first_row) {
  const int bytes = FactsOf(matrix.format).block_bytes;
  for (int lane = 0; lane < kPanelColumns; ++lane) {
    const int row = first_row + lane;
    for (int k = 0; k < matrix.cols; ++k) {
      std::byte* out = panel + (static_cast<int64_t>(k) * kPanelColumns + lane) * bytes;
      if (row < matrix.rows) {
        std::memcpy(out, source + (static_cast<int64_t>(row) * matrix.cols + k) * bytes, bytes);
      } else {
        std::memset(out, 0, bytes);
      }
    }
  }
}

void RepackTiles(const PackedMatrix& matrix, const std::byte* source, std::byte* panel, int first_row) {
  const FormatFacts facts = FactsOf(matrix.format);
  const int64_t row_bytes = static_cast<int64_t>(matrix.cols) / facts.block_values * facts.block_bytes;
  std::byte* scales = panel + static_cast<int64_t>(matrix.num_tiles) * facts.tile_value_bytes;
  for (int lane = 0; lane < kPanelColumns; ++lane) {
    const int row = first_row + lane;
    for (int tile = 0; tile < matrix.num_tiles; ++tile) {
      const TileColumn column =
          row < matrix.rows ? ReadColumn(matrix.format, source + row * row_bytes, tile) : TileColumn{};
      WriteCodes(facts, column, lane, panel + static_cast<int64_t>(tile) * facts.tile_value_bytes);
      WriteScales(facts, column, tile, lane, scales);
    }
  }
}

}  // namespace

void Repack(const PackedMatrix& matrix, const std::byte* source, std::byte* destination, int panel_begin,
            int panel_end) {
  const bool quantized = FactsOf(matrix.format).quantized;
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    std::byte* out = destination + panel * matrix.panel_bytes;
    (quantized ? RepackTiles : RepackFloats)(matrix, source, out, panel * kPanelColumns);
  }
}

}  // namespace qanat::kernels
