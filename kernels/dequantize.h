// Packed weights as float32: exactly the values that GGUF defines, d * q, d * q + m, or (d * sc) * q.
#pragma once

#include "kernels/packed_matrix.h"

namespace qanat::kernels {

// One output's weights as out[cols]: an embedding lookup.
void DequantizeRow(const PackedMatrix& matrix, int row, float* out);

}  // namespace qanat::kernels
