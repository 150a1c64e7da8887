// out = in * weight^T, the product of activations with a packed matrix.
//
// Arithmetic of one output, the same for every row count, tile and path:
//   quantised weights   acc = 0; for every scale group in ascending order (32 inputs; Q2_K, Q3_K, Q6_K 16):
//                         s = dw * da; acc = fma(s, float(dot), acc)
//                         and with a minimum: acc = fma(mw * da, float(sum of the group's q), acc)
//                       dot and sum are exact integers; a K-quant's dw and mw are products of two levels,
//                       exact in float32
//   F32, F16, BF16      acc = fma(w, x, acc) over the inputs in ascending order
//   accumulate          out = out + acc
// The reference path reads the float inputs whatever the format: acc = acc + w * x, two roundings, over
// chunks of 64 inputs whose sums are then added in ascending order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/packed_matrix.h"
#include "kernels/quantize.h"

namespace qanat::kernels {

struct GemmParams {
  const PackedMatrix* weight = nullptr;
  const float* in = nullptr;  // [rows, cols]; for float formats, and for all on the reference path
  int64_t in_stride = 0;
  QuantizedRows quantized;  // the same rows, for quantised formats
  float* out = nullptr;     // [rows, weight->rows], at this matrix's first column
  int64_t out_stride = 0;
  bool accumulate = false;
};

// A part of the product: whole panels of weights, rows of input. REQUIRES: row_begin % kRowBlock == 0.
struct GemmRange {
  int panel_begin = 0;
  int panel_end = 0;
  int row_begin = 0;
  int row_end = 0;
  // The panel that the calling thread will probably be given next: fetched meanwhile. May lie behind the
  // matrix.
  int next_panel = 0;
};

// Inputs that the fast path unpacks at a time, in tiles: two panels of them fill half of a first-level cache.
constexpr int kGemmStretchTiles = 18;
constexpr int kUnpackedTileBytes = 768;

// 64-byte aligned scratch that a call needs, for weights of any format: a panel of floats, or a stretch of
// two unpacked panels and the sums of all rows.
static inline int64_t GemmScratchBytes(int cols, int rows) {
  const int64_t panel = static_cast<int64_t>(cols) * kPanelColumns * 4;
  const int64_t padded_rows = (rows + kRowBlock - 1) / kRowBlock * kRowBlock;
  const int64_t stretch = 2 * kGemmStretchTiles * kUnpackedTileBytes + padded_rows * 2 * kPanelColumns * 4;
  // The scalar path unpacks a whole panel.
  const int64_t unpacked = (cols / kTileDepth + 1) * static_cast<int64_t>(kUnpackedTileBytes);
  const int64_t larger = panel > stretch ? panel : stretch;
  return larger > unpacked ? larger : unpacked;
}

}  // namespace qanat::kernels
