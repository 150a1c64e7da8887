#include "worker/model/weights/tensor_reader.h"

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "worker/model/weights/gguf_types.h"

namespace qanat::model {

absl::StatusOr<backend::HostMatrix> TensorReader::Take(std::string_view name, int64_t rows, int64_t cols) {
  const GgufTensor* tensor = file_.FindTensor(name);
  if (tensor == nullptr) return file_.Error(name, "missing tensor");
  // Trailing dimensions of 1 say nothing.
  if (tensor->dims[0] != cols || tensor->dims[1] != rows || tensor->dims[2] != 1 || tensor->dims[3] != 1) {
    return file_.Error(
        name, absl::StrCat("has the shape [", tensor->dims[0], ", ", tensor->dims[1], ", ", tensor->dims[2],
                           ", ", tensor->dims[3], "], must have [", cols, ", ", rows, "]"));
  }
  taken_.insert(tensor->name);
  return backend::HostMatrix{tensor->name, tensor->type, rows, cols, tensor->data};
}

absl::StatusOr<backend::HostMatrix> TensorReader::Matrix(std::string_view name, int64_t rows, int64_t cols) {
  return Take(name, rows, cols);
}

absl::StatusOr<backend::HostMatrix> TensorReader::Vector(std::string_view name, int64_t size) {
  QANAT_ASSIGN_OR_RETURN(const backend::HostMatrix vector, Take(name, 1, size));
  if (vector.type != backend::DType::kF32) {
    return file_.Error(name, absl::StrCat("must be F32, is ", std::string(TraitsOf(vector.type).name)));
  }
  return vector;
}

absl::Status TensorReader::CheckAllTaken() const {
  for (const GgufTensor& tensor : file_.tensors()) {
    if (taken_.contains(tensor.name)) continue;
    const absl::Status error = file_.Error(tensor.name, "a tensor that this architecture has no use for");
    return WithField(absl::UnimplementedError(error.message()), FieldOf(error));
  }
  return absl::OkStatus();
}

}  // namespace qanat::model
