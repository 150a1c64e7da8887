// A safetensors file: tensors by name, where the file has them, and its metadata.
//
//   QANAT_ASSIGN_OR_RETURN(auto file, SafeTensorsFile::Open("model.safetensors"));
//   const SafeTensor* norm = file->FindTensor("model.norm.weight");
//
// The format, little-endian throughout:
//   u64 length of the header, at most 100,000,000
//   the header: JSON in UTF-8 that begins with '{', blanks may follow it
//     {"__metadata__": {"key": "text", ...},
//      "name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
//   the data, to the end of the file; offsets count from its beginning. Together the tensors cover it without
//   holes and without overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/model/weights/mapped_file.h"

namespace qanat::model {

// An element type as the format names it.
struct SafeTensorsType {
  std::string_view name;
  int bits;
};

// Null for a name that the format does not define.
const SafeTensorsType* FindSafeTensorsType(std::string_view name);

struct SafeTensor {
  std::string name;
  const SafeTensorsType* type = nullptr;
  // The last dimension's elements are next to each other. Empty: a scalar. A dimension may be 0.
  std::vector<uint64_t> shape;
  absl::Span<const std::byte> data;
};

// What: the contents of one file, checked once and whole at Open; data is read when it is touched. Owns the
// mapping of the file; every view that it hands out lives as long as it does. Threads: any, it never changes.
// Errors: as GgufFile's: "<file>: <tensor, key or part>: <reason>". No input reaches a CHECK, throws, or
// reads outside the file.
//
// The rules are those of the format's own library, and where it is laxer than the format's text, the text's:
// no key comes twice, no key is unknown, and the header begins with '{'.
class SafeTensorsFile {
 public:
  static constexpr uint64_t kMaxHeaderBytes = 100'000'000;
  // Bounds that no real model reaches: what a hostile header can make us allocate stays near 50 MB.
  static constexpr uint64_t kMaxTensors = 1 << 16;
  static constexpr uint64_t kMaxDims = 32;
  static constexpr uint64_t kMaxTexts = 1 << 16;          // of the metadata
  static constexpr uint64_t kMaxStringBytes = 4 << 20;    // of one name or text
  static constexpr uint64_t kMaxStringsBytes = 16 << 20;  // of all of them

  static absl::StatusOr<std::unique_ptr<SafeTensorsFile>> Open(const std::string& path);
  // The same over bytes in memory, which outlive the result; `name` stands for the file in errors.
  static absl::StatusOr<std::unique_ptr<SafeTensorsFile>> Parse(std::string name,
                                                                absl::Span<const std::byte> bytes);

  const std::string& name() const { return name_; }
  absl::Span<const std::byte> bytes() const { return bytes_; }

  // In the order of their data.
  absl::Span<const SafeTensor> tensors() const { return tensors_; }
  // Null when there is none of that name.
  const SafeTensor* FindTensor(std::string_view name) const;
  // What "__metadata__" says, in the order of the file.
  absl::Span<const std::pair<std::string, std::string>> metadata() const { return metadata_; }

  // INVALID_ARGUMENT "<file>: <subject>: <reason>".
  absl::Status Error(std::string_view subject, std::string_view reason) const;

 private:
  explicit SafeTensorsFile(std::string name) : name_(std::move(name)) {}
  absl::Status Read();

  std::string name_;
  MappedFile mapping_;  // of nothing when the bytes are someone else's
  absl::Span<const std::byte> bytes_;
  std::vector<SafeTensor> tensors_;
  absl::flat_hash_map<std::string_view, int> tensor_index_;  // views into tensors_
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace qanat::model
