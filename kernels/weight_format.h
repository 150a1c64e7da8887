// How weights are stored: the encodings of a GGUF file that the kernels compute with, and what each one
// costs.
#pragma once

#include <cstdint>

namespace qanat::kernels {

enum class WeightFormat : uint8_t { kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ8_0, kQ6_K };

// Sizes of one encoding. In the file, a row is a list of blocks of `block_values` consecutive weights. Packed
// (packed_matrix.h), 16 output columns share tiles of `tile_depth` inputs.
struct FormatFacts {
  int block_values = 1;
  int block_bytes = 0;
  int tile_depth = 1;        // inputs a tile holds
  int tile_value_bytes = 0;  // 16 columns x tile_depth codes or floats
  int tile_scale_bytes = 0;  // scales and minima of the 16 columns
  bool quantized = false;
  int zero_point = 0;        // what a stored code exceeds the signed weight by
  bool has_minimum = false;  // weight = d * code + m
  int scale_groups = 1;      // scale groups in a tile
};

// GGUF: Q4_0, Q4_1, Q8_0 have blocks of 32 with fp16 scale (and minimum); Q6_K has blocks of 256 with one
// fp16 scale and an int8 scale for each 16. Q6_K is held with a byte a code here (1.37 times the file's
// size): it is the encoding of few tensors, and a plain dot product is worth more than their bytes.
static constexpr FormatFacts FactsOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return {1, 4, 1, 64, 0, false, 0, false, 1};
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return {1, 2, 1, 32, 0, false, 0, false, 1};
    case WeightFormat::kQ4_0:
      return {32, 18, 32, 256, 32, true, 8, false, 1};
    case WeightFormat::kQ4_1:
      return {32, 20, 32, 256, 64, true, 0, true, 1};
    case WeightFormat::kQ8_0:
      return {32, 34, 32, 512, 32, true, 128, false, 1};
    case WeightFormat::kQ6_K:
      return {256, 210, 32, 512, 64, true, 32, false, 2};
  }
  return {};
}

}  // namespace qanat::kernels
