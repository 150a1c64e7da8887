// Activations as int8, 32 at a time, the same for every row count.
//
// For the 32 values x of a group: amax = max |x|; scale = amax / 127; q = round-to-nearest-even(x * (127 /
// amax)). Groups with amax < 2^-100 count as zero (scale 0). A group that holds an infinity or a NaN gets
// scale NaN and codes 0, so that every output that depends on it is NaN.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qanat::kernels {

// Rows are stored in blocks of 6, the height of the largest register tile.
constexpr int kRowBlock = 6;

// One group of one row: a cache line. The corrections are what a product with unsigned codes must start from;
// what is needed for half a group and another zero point follows from minus_32_half_sum by a shift.
struct alignas(64) QuantizedCell {
  int8_t q[32];
  float scale;
  float sum;            // sum of q, exact
  int32_t minus_8_sum;  // for codes that are weight + 8
  int32_t minus_16_sum;
  int32_t minus_128_sum;
  int32_t minus_32_half_sum[2];  // of q[0..15] and q[16..31]
  int32_t unused;
};
static_assert(sizeof(QuantizedCell) == 64);

// Cell (row, tile) is cells[((row / 6) * num_tiles + tile) * 6 + row % 6]. A view.
struct QuantizedRows {
  QuantizedCell* cells = nullptr;
  int num_tiles = 0;
};

// Cells that `rows` rows of `cols` inputs take.
static inline int64_t NumQuantizedCells(int rows, int cols) {
  return static_cast<int64_t>((rows + kRowBlock - 1) / kRowBlock) * kRowBlock * (cols / 32);
}

// in is [rows, cols] with `stride` floats between rows; cols = 32 * out.num_tiles.
struct QuantizeParams {
  const float* in = nullptr;
  int64_t stride = 0;
  QuantizedRows out;
};

}  // namespace qanat::kernels
