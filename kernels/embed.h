// out[r, :] = scale * table[ids[r], :], read from the packed table (which may also be the output matrix).
#pragma once

#include <cstdint>

#include "kernels/packed_matrix.h"

namespace qanat::kernels {

struct EmbedParams {
  const PackedMatrix* table = nullptr;
  const int32_t* ids = nullptr;  // each in [0, table->rows)
  float scale = 1;
  float* out = nullptr;  // [rows, table->cols]
};

void Embed(const EmbedParams& params, int row_begin, int row_end);

}  // namespace qanat::kernels
