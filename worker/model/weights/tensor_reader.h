// Takes a family's tensors out of a file, each with the shape it must have, and notices those left over.
#pragma once

#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/model/weights/gguf.h"

namespace qanat::model {

// What: one loading's view of a file. The file outlives it. Threads: one. Errors: as GgufFile's, naming the
// tensor.
class TensorReader {
 public:
  explicit TensorReader(const GgufFile& file) : file_(file) {}

  // A matrix of `rows` outputs of `cols` inputs. Its views are the file's.
  absl::StatusOr<backend::HostMatrix> Matrix(std::string_view name, int64_t rows, int64_t cols);
  // A vector of F32.
  absl::StatusOr<backend::HostMatrix> Vector(std::string_view name, int64_t size);

  // UNIMPLEMENTED naming the first tensor that nobody took: a file that holds more than its family computes
  // with would give other answers than its maker meant.
  absl::Status CheckAllTaken() const;

 private:
  absl::StatusOr<backend::HostMatrix> Take(std::string_view name, int64_t rows, int64_t cols);

  const GgufFile& file_;
  absl::flat_hash_set<std::string_view> taken_;
};

}  // namespace qanat::model
