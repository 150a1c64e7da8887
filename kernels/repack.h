// From the rows of a GGUF tensor to panels (packed_matrix.h). Lossless: only bytes move.
#pragma once

#include <cstddef>

#include "kernels/packed_matrix.h"

namespace qanat::kernels {

// Fills panels [panel_begin, panel_end) of `matrix` at `destination` (= matrix.data) from `source`, which is
// [rows, cols] in the file's encoding, without gaps and with any alignment.
void Repack(const PackedMatrix& matrix, const std::byte* source, std::byte* destination, int panel_begin,
            int panel_end);

}  // namespace qanat::kernels
