// The weights of a CPU backend, packed for its kernels.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/packed_matrix.h"
#include "worker/backend/arena.h"
#include "worker/backend/backend.h"
#include "worker/backend/thread_pool.h"

namespace qanat::backend {

// Some of a matrix's outputs that share an encoding.
struct MatrixSegment {
  kernels::PackedMatrix packed;
  int first_output = 0;
};

struct CpuMatrix {
  std::vector<MatrixSegment> segments;  // ascending and without gaps
  int cols = 0;
  bool quantized = false;  // at least one segment is
};

// What: weights by id, in load order. Borrows the arena that holds them and the pool that packs them; lives
// as long as the backend. Threads: one. Errors: INVALID_ARGUMENT for a matrix whose data or width does not
// fit its encoding; UNIMPLEMENTED for vectors that are not F32; the arena's.
class CpuWeights {
 public:
  CpuWeights(Arena& arena, ThreadPool& pool) : arena_(arena), pool_(pool) {}

  absl::StatusOr<Weight> AddMatrix(absl::Span<const HostMatrix> parts);
  absl::StatusOr<Weight> AddVector(const HostMatrix& vector);

  // REQUIRES: a weight that AddMatrix, or AddVector, returned.
  const CpuMatrix& matrix(Weight weight) const { return entries_[weight.id].matrix; }
  const float* vector(Weight weight) const { return entries_[weight.id].vector; }

  int64_t bytes() const { return bytes_; }
  // The widest matrix's inputs.
  int max_cols() const { return max_cols_; }
  // Whether a matrix of `cols` inputs has quantised weights.
  bool HasQuantized(int cols) const { return quantized_cols_.count(cols) != 0; }

 private:
  struct Entry {
    CpuMatrix matrix;
    const float* vector = nullptr;
  };

  absl::StatusOr<MatrixSegment> Pack(const HostMatrix& part, int first_output);

  Arena& arena_;
  ThreadPool& pool_;
  std::vector<Entry> entries_;
  int64_t bytes_ = 0;
  int max_cols_ = 0;
  std::set<int> quantized_cols_;
};

}  // namespace qanat::backend
