#include "worker/backend/cpu_weights.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "kernels/repack.h"

namespace qanat::backend {
namespace {

using kernels::WeightFormat;

const char* NameOf(DType type) {
  static constexpr const char* kNames[] = {"F32",  "F16",  "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                           "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"};
  return kNames[static_cast<int>(type)];
}

// Debian's Abseil has a string_view of its own.
std::string NameOf(const HostMatrix& part) { return "tensor " + std::string(part.name); }

WeightFormat FormatOf(DType type) {
  switch (type) {
    case DType::kF32:
      return WeightFormat::kF32;
    case DType::kF16:
      return WeightFormat::kF16;
    case DType::kBF16:
      return WeightFormat::kBF16;
    case DType::kQ4_0:
      return WeightFormat::kQ4_0;
    case DType::kQ4_1:
      return WeightFormat::kQ4_1;
    case DType::kQ5_0:
      return WeightFormat::kQ5_0;
    case DType::kQ5_1:
      return WeightFormat::kQ5_1;
    case DType::kQ8_0:
      return WeightFormat::kQ8_0;
    case DType::kQ2_K:
      return WeightFormat::kQ2_K;
    case DType::kQ3_K:
      return WeightFormat::kQ3_K;
    case DType::kQ4_K:
      return WeightFormat::kQ4_K;
    case DType::kQ5_K:
      return WeightFormat::kQ5_K;
    case DType::kQ6_K:
      return WeightFormat::kQ6_K;
  }
  QANAT_CHECK(false) << "no weight format for type " << static_cast<int>(type);
  return WeightFormat::kF32;
}

absl::Status CheckPart(const HostMatrix& part, WeightFormat format) {
  const kernels::FormatFacts facts = kernels::FactsOf(format);
  constexpr int64_t kMax = std::numeric_limits<int>::max() / 2;
  if (part.rows < 1 || part.cols < 1 || part.rows > kMax || part.cols > kMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(part), ": cannot compute with ", part.rows, " x ", part.cols));
  }
  if (part.cols % facts.block_values != 0) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(part), ": ", part.cols,
                                                   " columns are no multiple of ", facts.block_values,
                                                   ", the block of ", NameOf(part.type)));
  }
  const int64_t bytes = part.rows * (part.cols / facts.block_values) * facts.block_bytes;
  if (static_cast<int64_t>(part.data.size()) != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(part), ": ", part.data.size(), " bytes where its shape says ", bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MatrixSegment> CpuWeights::Pack(const HostMatrix& part, int first_output) {
  const WeightFormat format = FormatOf(part.type);
  QANAT_RETURN_IF_ERROR(CheckPart(part, format));
  kernels::PackedMatrix packed =
      kernels::MakePackedMatrix(format, static_cast<int>(part.rows), static_cast<int>(part.cols), nullptr);
  QANAT_ASSIGN_OR_RETURN(std::byte * memory,
                         arena_.Allocate(kernels::PackedBytes(packed), "a weight matrix"));
  packed.data = memory;
  bytes_ += kernels::PackedBytes(packed);
  pool_.ParallelFor(kernels::NumPanels(packed.rows), [&](int panel, int) {
    kernels::Repack(packed, part.data.data(), memory, panel, panel + 1);
  });
  return MatrixSegment{packed, first_output};
}

absl::StatusOr<Weight> CpuWeights::AddMatrix(absl::Span<const HostMatrix> parts) {
  QANAT_CHECK(!parts.empty()) << "a matrix has at least one part";
  CpuMatrix matrix;
  int rows = 0;
  for (const HostMatrix& part : parts) {
    if (part.cols != parts[0].cols) {
      return absl::InvalidArgumentError(absl::StrCat(NameOf(part), ": ", part.cols, " columns, but ",
                                                     NameOf(parts[0]), " has ", parts[0].cols));
    }
    QANAT_ASSIGN_OR_RETURN(const MatrixSegment segment, Pack(part, rows));
    matrix.quantized |= kernels::FactsOf(segment.packed.format).quantized;
    rows += segment.packed.rows;
    matrix.segments.push_back(segment);
  }
  matrix.cols = static_cast<int>(parts[0].cols);
  max_cols_ = std::max(max_cols_, matrix.cols);
  if (matrix.quantized) quantized_cols_.insert(matrix.cols);
  const Weight weight{static_cast<int32_t>(entries_.size()), rows, matrix.cols};
  entries_.push_back({std::move(matrix), nullptr});
  return weight;
}

absl::StatusOr<Weight> CpuWeights::AddVector(const HostMatrix& vector) {
  if (vector.type != DType::kF32) {
    return absl::UnimplementedError(
        absl::StrCat(NameOf(vector), ": no CPU kernel for vectors of type ", NameOf(vector.type)));
  }
  QANAT_RETURN_IF_ERROR(CheckPart(vector, WeightFormat::kF32));
  const int64_t count = vector.rows * vector.cols;
  QANAT_ASSIGN_OR_RETURN(std::byte * memory, arena_.Allocate(count * 4, "a weight vector"));
  std::memcpy(memory, vector.data.data(), count * 4);
  bytes_ += count * 4;
  const Weight weight{static_cast<int32_t>(entries_.size()), 1, static_cast<int>(count)};
  entries_.push_back({{}, reinterpret_cast<const float*>(memory)});
  return weight;
}

}  // namespace qanat::backend
