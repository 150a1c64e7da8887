// A model file's bytes where the kernel maps them, and errors that name a place in such a file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace qanat::model {

// What: a read-only mapping; pages are read when they are touched. Owns the mapping, movable. Threads: any.
// Errors: NOT_FOUND when the file cannot be opened, INVALID_ARGUMENT when it is empty or no regular file.
// REQUIRES: nobody makes the file shorter while this lives.
class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  // Maps nothing.
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  absl::Span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// INVALID_ARGUMENT "<file>: <subject>: <reason>", the subject (a key, a tensor's name) being the field at
// fault. Subjects come from files: they are shown so that they can neither flood a log nor forge a line of
// it.
absl::Status FileError(std::string_view file, std::string_view subject, std::string_view reason);

}  // namespace qanat::model
