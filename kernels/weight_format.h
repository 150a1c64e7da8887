// How weights are stored: the encodings of a GGUF file that the kernels compute with, and what each one
// costs.
#pragma once

#include <cstdint>

namespace qanat::kernels {

enum class WeightFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K
};

constexpr int kPanelColumns = 16;
constexpr int kTileDepth = 32;  // of the quantised formats

// Sizes of one encoding. In the file, a row is a list of blocks of `block_values` consecutive weights. Packed
// (packed_matrix.h), 16 output columns share tiles of `tile_depth` inputs.
struct FormatFacts {
  int block_values = 1;
  int block_bytes = 0;
  int tile_depth = 1;         // inputs a tile holds
  int tile_value_bytes = 0;   // 16 columns x tile_depth codes or floats
  int tile_scale_bytes = 0;   // the lower level of two-level scales
  int block_scale_bytes = 0;  // fp16 scales (and minima) of a block's tiles
  int tiles_a_block = 1;
  bool quantized = false;
  int code_bits = 0;         // 4; 5 or 6: nibbles and a plane of upper bits; 8
  int zero_point = 0;        // what a stored code exceeds the signed weight by
  bool has_minimum = false;  // weight = d * code + m
  bool two_levels = false;   // an integer for each scale group multiplies d (and m)
  int scale_groups = 1;      // scale groups in a tile
};

static constexpr FormatFacts FloatFacts(int bytes) {
  FormatFacts facts;
  facts.block_bytes = bytes;
  facts.tile_value_bytes = kPanelColumns * bytes;
  return facts;
}

static constexpr FormatFacts QuantizedFacts(int block_values, int block_bytes, int code_bits, int zero_point,
                                            bool has_minimum, int scale_groups) {
  FormatFacts facts;
  facts.block_values = block_values;
  facts.block_bytes = block_bytes;
  facts.tile_depth = kTileDepth;
  facts.tile_value_bytes = kPanelColumns * kTileDepth * code_bits / 8;
  facts.tiles_a_block = block_values / kTileDepth;
  facts.two_levels = facts.tiles_a_block > 1;
  const int scales = has_minimum ? 2 : 1;
  facts.tile_scale_bytes = facts.two_levels ? scales * scale_groups * kPanelColumns : 0;
  facts.block_scale_bytes = scales * kPanelColumns * 2;
  facts.quantized = true;
  facts.code_bits = code_bits;
  facts.zero_point = zero_point;
  facts.has_minimum = has_minimum;
  facts.scale_groups = scale_groups;
  return facts;
}

// GGUF: Q4_0 to Q8_0 have blocks of 32 with fp16 scale (and minimum). K-quants have blocks of 256 with fp16
// scale (and minimum) and, for each group of 32 or 16, an integer of 4, 6 or 8 bits that multiplies it.
// Packed, they take the file's bytes and 3 % (Q4_K: 4.63 bits a weight for 4.5), as those integers take a
// byte each; Q2_K and Q3_K, which few files have, hold their 2 and 3 bits in nibbles (4.75 and 4.56 bits).
static constexpr FormatFacts FactsOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return FloatFacts(4);
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return FloatFacts(2);
    case WeightFormat::kQ4_0:
      return QuantizedFacts(32, 18, 4, 8, false, 1);
    case WeightFormat::kQ4_1:
      return QuantizedFacts(32, 20, 4, 0, true, 1);
    case WeightFormat::kQ5_0:
      return QuantizedFacts(32, 22, 5, 16, false, 1);
    case WeightFormat::kQ5_1:
      return QuantizedFacts(32, 24, 5, 0, true, 1);
    case WeightFormat::kQ8_0:
      return QuantizedFacts(32, 34, 8, 128, false, 1);
    case WeightFormat::kQ2_K:
      return QuantizedFacts(256, 84, 4, 0, true, 2);
    case WeightFormat::kQ3_K:
      return QuantizedFacts(256, 110, 4, 4, false, 2);
    case WeightFormat::kQ4_K:
      return QuantizedFacts(256, 144, 4, 0, true, 1);
    case WeightFormat::kQ5_K:
      return QuantizedFacts(256, 176, 5, 0, true, 1);
    case WeightFormat::kQ6_K:
      return QuantizedFacts(256, 210, 6, 32, false, 2);
  }
  return {};
}

}  // namespace qanat::kernels
