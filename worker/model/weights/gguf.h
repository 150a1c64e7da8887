// A GGUF file (version 3): metadata by key, tensors by name, weights where the file has them.
//
//   QANAT_ASSIGN_OR_RETURN(auto file, GgufFile::Open("model.gguf"));
//   QANAT_ASSIGN_OR_RETURN(uint32_t layers, file->GetU32("llama.block_count"));
//
// The format, little-endian throughout:
//   "GGUF", u32 version, u64 tensor count, u64 key count
//   key count x    { string key, u32 value type, value }         string = u64 length, bytes
//   tensor count x { string name, u32 n, u64 dims[n], u32 type, u64 offset }
//   padding to general.alignment (32 unless set); offsets count from here, each a multiple of the alignment
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/backend/backend.h"
#include "worker/model/weights/mapped_file.h"

namespace qanat::model {

struct GgufTensor {
  std::string_view name;
  backend::DType type = backend::DType::kF32;
  int num_dims = 0;
  // dims[0] is the length of a row: elements next to each other in the file. Unused ones are 1.
  std::array<int64_t, 4> dims = {1, 1, 1, 1};
  absl::Span<const std::byte> data;

  int64_t cols() const { return dims[0]; }
  int64_t rows() const { return dims[1] * dims[2] * dims[3]; }
};

// What: the contents of one file, checked once and whole at Open. Owns the mapping of the file; every view
// that it hands out lives as long as it does. Threads: any, it never changes. Errors: "<file>: <key or
// tensor>: <reason>"; NOT_FOUND when the file cannot be opened, UNIMPLEMENTED for a version or tensor type
// that is not supported, INVALID_ARGUMENT for everything else. No input reaches a CHECK or reads outside the
// file.
class GgufFile {
 public:
  static constexpr uint32_t kVersion = 3;
  // Bounds that no real model reaches: what a file that is refused makes us allocate stays under 50 MB.
  static constexpr uint64_t kMaxKeys = 1 << 16;
  static constexpr uint64_t kMaxTensors = 1 << 17;
  static constexpr uint64_t kMaxArrayElements = 1 << 19;
  static constexpr uint32_t kMaxAlignment = 1 << 20;

  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);
  // The same over bytes in memory, which outlive the result; `name` stands for the file in errors.
  static absl::StatusOr<std::unique_ptr<GgufFile>> Parse(std::string name, absl::Span<const std::byte> bytes);
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& name() const { return name_; }
  absl::Span<const std::byte> bytes() const { return bytes_; }

  bool Has(std::string_view key) const { return values_.contains(key); }
  // NOT_FOUND naming the key when it is absent, INVALID_ARGUMENT when its value is of another type or does
  // not fit. Integers may be stored in any width, floats in either.
  absl::StatusOr<uint32_t> GetU32(std::string_view key) const;
  absl::StatusOr<float> GetF32(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string_view> GetString(std::string_view key) const;
  // The same, `otherwise` when the key is absent.
  absl::StatusOr<uint32_t> GetU32Or(std::string_view key, uint32_t otherwise) const;
  absl::StatusOr<float> GetF32Or(std::string_view key, float otherwise) const;
  absl::StatusOr<bool> GetBoolOr(std::string_view key, bool otherwise) const;
  absl::StatusOr<std::string_view> GetStringOr(std::string_view key, std::string_view otherwise) const;
  // Arrays. The strings are views into the file; numbers are copied, since the file does not align them.
  absl::StatusOr<uint64_t> GetArraySize(std::string_view key) const;
  absl::StatusOr<std::vector<std::string_view>> GetStrings(std::string_view key) const;
  absl::StatusOr<std::vector<int32_t>> GetI32s(std::string_view key) const;
  absl::StatusOr<std::vector<float>> GetF32s(std::string_view key) const;

  // In the order of the file.
  absl::Span<const GgufTensor> tensors() const { return tensors_; }
  // Null when there is none of that name.
  const GgufTensor* FindTensor(std::string_view name) const;

  // INVALID_ARGUMENT "<file>: <subject>: <reason>", the subject being a key or a tensor's name.
  absl::Status Error(std::string_view subject, std::string_view reason) const;

 private:
  friend class GgufParser;

  // Type ids as in the file.
  enum class ValueType : uint32_t {
    kU8 = 0,
    kI8,
    kU16,
    kI16,
    kU32,
    kI32,
    kF32,
    kBool,
    kString,
    kArray,
    kU64,
    kI64,
    kF64,
  };
  struct Value {
    ValueType type;
    ValueType element;      // of an array
    uint64_t count;         // of an array
    const std::byte* data;  // of a scalar, of a string's characters, or of an array's first element
    uint64_t size;          // of a string
  };

  explicit GgufFile(std::string name) : name_(std::move(name)) {}
  absl::StatusOr<const Value*> Find(std::string_view key) const;
  absl::StatusOr<const Value*> FindArray(std::string_view key) const;

  std::string name_;
  MappedFile mapping_;  // of nothing when the bytes are someone else's
  absl::Span<const std::byte> bytes_;
  absl::flat_hash_map<std::string_view, Value> values_;
  std::vector<GgufTensor> tensors_;
  absl::flat_hash_map<std::string_view, int> tensor_index_;
};

}  // namespace qanat::model
