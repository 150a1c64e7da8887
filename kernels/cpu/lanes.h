// Packed tiles as 16 lanes of plain C++, one a column: what the scalar and the reference path read weights
// with. Everything has internal linkage: files with other instruction sets include this too, and the linker
// must not share their copies.
#pragma once

#include <cstring>

#include "kernels/half.h"
#include "kernels/packed_matrix.h"

namespace qanat::kernels {

// Line i of a tile: inputs 4 i .. 4 i + 3 of each column, as the bytes of one integer, lowest first.
struct TileLines {
  uint32_t line[kTileDepth / 4][kPanelColumns];
};

// Where the upper bits of a line of codes lie: a byte of the plane behind the nibbles, and a shift in it.
struct UpperBits {
  int plane_at;
  int shift;
  int mask;
};

// REQUIRES: code_bits is 5 or 6.
static inline UpperBits UpperBitsOf(const FormatFacts& facts, int line) {
  const int bits = facts.code_bits - 4;
  return {kNibbleBytes + line * bits / 8 * 64, line * bits % 8, (1 << bits) - 1};
}

static inline void UnpackLines(const FormatFacts& facts, const std::byte* tile, TileLines& out) {
  if (facts.code_bits == 8) {
    std::memcpy(&out, tile, sizeof(out));
    return;
  }
  uint32_t packed[kPanelColumns];
  for (int pair = 0; pair < 4; ++pair) {
    std::memcpy(packed, tile + pair * sizeof(packed), sizeof(packed));
    for (int lane = 0; lane < kPanelColumns; ++lane) {
      out.line[2 * pair][lane] = packed[lane] & 0x0F0F0F0Fu;
      out.line[2 * pair + 1][lane] = packed[lane] >> 4 & 0x0F0F0F0Fu;
    }
  }
  for (int line = 0; facts.code_bits > 4 && line < kTileDepth / 4; ++line) {
    const UpperBits upper = UpperBitsOf(facts, line);
    const uint32_t mask = static_cast<uint32_t>(upper.mask) * 0x01010101u;
    std::memcpy(packed, tile + upper.plane_at, sizeof(packed));
    for (int lane = 0; lane < kPanelColumns; ++lane) {
      out.line[line][lane] |= (packed[lane] >> upper.shift & mask) << 4;
    }
  }
}

// One code, of input k of a tile.
static inline int CodeAt(const FormatFacts& facts, const std::byte* tile, int k, int lane) {
  const int at = lane * 4 + k % 4;
  if (facts.code_bits == 8) return static_cast<int>(tile[k / 4 * 64 + at]);
  const int nibble = static_cast<int>(tile[k / 8 * 64 + at]) >> (k % 8 / 4 * 4) & 15;
  if (facts.code_bits == 4) return nibble;
  const UpperBits upper = UpperBitsOf(facts, k / 4);
  return nibble | (static_cast<int>(tile[upper.plane_at + at]) >> upper.shift & upper.mask) << 4;
}

// Scale (`minimum` 0) or minimum (1) of a column's scale group, from the scales of its panel.
static inline float ScaleAt(const FormatFacts& facts, const std::byte* scales, int64_t tile, int group,
                            int lane, int minimum) {
  uint16_t half;
  const int64_t at = BlockScalesAt(facts, tile) + (minimum * kPanelColumns + lane) * 2;
  std::memcpy(&half, scales + at, sizeof(half));
  if (!facts.two_levels) return HalfToFloat(half);
  const int sub = (minimum * facts.scale_groups + group) * kPanelColumns + lane;
  return HalfToFloat(half) * static_cast<float>(static_cast<int8_t>(scales[TileScalesAt(facts, tile) + sub]));
}

// Scales and minima (0 for formats without) of a tile, as if there always were two groups of 16.
struct TileScales {
  float d[2][kPanelColumns];
  float m[2][kPanelColumns];
};

static inline void UnpackScales(const FormatFacts& facts, const std::byte* scales, int64_t tile,
                                TileScales& out) {
  for (int half = 0; half < 2; ++half) {
    const int group = half * facts.scale_groups / 2;
    for (int lane = 0; lane < kPanelColumns; ++lane) {
      out.d[half][lane] = ScaleAt(facts, scales, tile, group, lane, 0);
      out.m[half][lane] = facts.has_minimum ? ScaleAt(facts, scales, tile, group, lane, 1) : 0.0f;
    }
  }
}

// Element (k, lane) of a panel of floats.
static inline float LoadWeight(WeightFormat format, const std::byte* values, int64_t index) {
  if (format == WeightFormat::kF32) {
    float value;
    std::memcpy(&value, values + index * 4, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, values + index * 2, 2);
  return format == WeightFormat::kF16 ? HalfToFloat(bits) : Bf16ToFloat(bits);
}

}  // namespace qanat::kernels
