#include "kernels/repack.h"

#include <cstring>

#include "kernels/half.h"

namespace qanat::kernels {
namespace {

// One column's 32 inputs of a tile, unpacked from the file: unsigned codes and the bytes of its scales.
struct TileColumn {
  uint8_t codes[kTileDepth] = {};
  uint16_t d = 0;
  uint16_t m = 0;
  int8_t sub_scales[2] = {};
};

uint16_t ReadHalf(const std::byte* source) {
  uint16_t half;
  std::memcpy(&half, source, sizeof(half));
  return half;
}

void ReadNibbles(const std::byte* source, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    const uint8_t byte = static_cast<uint8_t>(source[i]);
    codes[i] = byte & 15;
    codes[i + 16] = byte >> 4;
  }
}

// A Q6_K block: 128 bytes of low nibbles, 64 of upper bit pairs, 16 int8 scales, fp16 d. Each half of 128
// weights takes 64 and 32 bytes of the first two; its four runs of 32 sit in nibbles and bit pairs of the
// same bytes.
void ReadQ6K(const std::byte* block, int tile_in_block, TileColumn& column) {
  const int half = tile_in_block / 4;
  const int run = tile_in_block % 4;
  const std::byte* low = block + half * 64 + (run % 2) * 32;
  const std::byte* high = block + 128 + half * 32;
  for (int i = 0; i < kTileDepth; ++i) {
    const int nibble = static_cast<int>(low[i]) >> (run / 2 * 4) & 15;
    const int pair = static_cast<int>(high[i]) >> (run * 2) & 3;
    column.codes[i] = static_cast<uint8_t>(nibble | pair << 4);
  }
  std::memcpy(column.sub_scales, block + 192 + tile_in_block * 2, 2);
  column.d = ReadHalf(block + 208);
}

TileColumn ReadColumn(WeightFormat format, const std::byte* row, int tile) {
  const FormatFacts facts = FactsOf(format);
  const int tiles_a_block = facts.block_values / kTileDepth;
  const std::byte* block = row + static_cast<int64_t>(tile / tiles_a_block) * facts.block_bytes;
  TileColumn column;
  if (format == WeightFormat::kQ6_K) {
    ReadQ6K(block, tile % tiles_a_block, column);
    return column;
  }
  column.d = ReadHalf(block);
  if (format == WeightFormat::kQ8_0) {
    for (int i = 0; i < kTileDepth; ++i) column.codes[i] = static_cast<uint8_t>(block[2 + i]) ^ 0x80;
  } else if (format == WeightFormat::kQ4_1) {
    column.m = ReadHalf(block + 2);
    ReadNibbles(block + 4, column.codes);
  } else {
    ReadNibbles(block + 2, column.codes);
  }
  return column;
}

void WriteCodes(WeightFormat format, const TileColumn& column, int lane, std::byte* tile) {
  const bool nibbles = FactsOf(format).tile_value_bytes == 256;
  for (int group = 0; group < kTileDepth / 4; ++group) {
    if (!nibbles) {
      std::memcpy(tile + group * 64 + lane * 4, column.codes + group * 4, 4);
    } else if (group % 2 == 0) {
      for (int i = 0; i < 4; ++i) {
        const int low = column.codes[group * 4 + i];
        const int high = column.codes[group * 4 + 4 + i];
        tile[group / 2 * 64 + lane * 4 + i] = static_cast<std::byte>(low | high << 4);
      }
    }
  }
}

void WriteScales(WeightFormat format, const TileColumn& column, int lane, std::byte* scales) {
  if (format == WeightFormat::kQ6_K) {
    std::memcpy(scales + lane, &column.sub_scales[0], 1);
    std::memcpy(scales + kPanelColumns + lane, &column.sub_scales[1], 1);
    std::memcpy(scales + 2 * kPanelColumns + lane * 2, &column.d, 2);
    return;
  }
  std::memcpy(scales + lane * 2, &column.d, 2);
  if (format == WeightFormat::kQ4_1) std::memcpy(scales + 2 * kPanelColumns + lane * 2, &column.m, 2);
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
      WriteCodes(matrix.format, column, lane, panel + static_cast<int64_t>(tile) * facts.tile_value_bytes);
      WriteScales(matrix.format, column, lane, scales + static_cast<int64_t>(tile) * facts.tile_scale_bytes);
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
