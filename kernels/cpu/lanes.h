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

static inline void UnpackLines(const FormatFacts& facts, const std::byte* tile, TileLines& out) {
  if (facts.tile_value_bytes == static_cast<int>(sizeof(out))) {
    std::memcpy(&out, tile, sizeof(out));
    return;
  }
  for (int pair = 0; pair < 4; ++pair) {
    uint32_t packed[kPanelColumns];
    std::memcpy(packed, tile + pair * sizeof(packed), sizeof(packed));
    for (int lane = 0; lane < kPanelColumns; ++lane) {
      out.line[2 * pair][lane] = packed[lane] & 0x0F0F0F0Fu;
      out.line[2 * pair + 1][lane] = packed[lane] >> 4 & 0x0F0F0F0Fu;
    }
  }
}

// Scales of the two halves of a tile (equal but for Q6_K), and the minimum (0 for formats without one).
struct TileScales {
  float d[2][kPanelColumns];
  float m[kPanelColumns];
};

static inline void UnpackScales(const FormatFacts& facts, const std::byte* scales, TileScales& out) {
  uint16_t half[kPanelColumns];
  if (facts.scale_groups == 2) {
    std::memcpy(half, scales + 2 * kPanelColumns, sizeof(half));
    for (int lane = 0; lane < kPanelColumns; ++lane) {
      const float d = HalfToFloat(half[lane]);
      for (int group = 0; group < 2; ++group) {
        out.d[group][lane] =
            d * static_cast<float>(static_cast<int8_t>(scales[group * kPanelColumns + lane]));
      }
      out.m[lane] = 0;
    }
    return;
  }
  std::memcpy(half, scales, sizeof(half));
  for (int lane = 0; lane < kPanelColumns; ++lane) out.d[0][lane] = out.d[1][lane] = HalfToFloat(half[lane]);
  for (int lane = 0; lane < kPanelColumns; ++lane) out.m[lane] = 0;
  if (!facts.has_minimum) return;
  std::memcpy(half, scales + 2 * kPanelColumns, sizeof(half));
  for (int lane = 0; lane < kPanelColumns; ++lane) out.m[lane] = HalfToFloat(half[lane]);
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
