// The one pass over a GGUF file's head that checks everything a later reader relies on. Only gguf.cc uses it.
#pragma once

#include "absl/status/status.h"
#include "worker/model/weights/gguf.h"

namespace qanat::model {

// What: fills `file` from its bytes. Lives for one call of Run. Errors: see GgufFile; after one the file is
// not used. Every count is bounded by the bytes that remain before anything is reserved for it.
class GgufParser {
 public:
  explicit GgufParser(GgufFile& file) : file_(file) {}
  absl::Status Run();

 private:
  using ValueType = GgufFile::ValueType;

  absl::Status ReadHeader();
  absl::Status ReadKeys();
  absl::Status ReadValue(std::string_view key, GgufFile::Value& value);
  absl::Status ReadArray(std::string_view key, GgufFile::Value& value);
  absl::Status ReadAlignment();
  absl::Status ReadTensors();
  absl::Status ReadTensor(GgufTensor& tensor, uint64_t& offset, uint64_t& size);
  absl::Status PlaceTensors(absl::Span<const uint64_t> offsets, absl::Span<const uint64_t> sizes);

  uint64_t remaining() const { return file_.bytes_.size() - at_; }
  const std::byte* here() const { return file_.bytes_.data() + at_; }
  // False when the file ends first.
  template <typename T>
  bool Read(T& value);
  bool ReadString(std::string_view& text);

  absl::Status Cut(std::string_view subject) const;

  GgufFile& file_;
  uint64_t at_ = 0;
  uint64_t num_tensors_ = 0;
  uint64_t num_keys_ = 0;
  uint32_t alignment_ = 32;
};

}  // namespace qanat::model
