#include "worker/model/weights/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace qanat::model {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Closes a descriptor at the end of a scope; the mapping outlives it.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  struct stat info {};
  if (fstat(file.fd, &info) != 0) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": magic: the file is empty"));
  void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return absl::InternalError(absl::StrCat(path, ": mmap: ", std::strerror(errno)));
  MappedFile mapped;
  mapped.data_ = data;
  mapped.size_ = size;
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

absl::Status FileError(std::string_view file, std::string_view subject, std::string_view reason) {
  constexpr size_t kShown = 96;
  const std::string shown = absl::CHexEscape(View(subject.substr(0, kShown)));
  return WithField(absl::InvalidArgumentError(absl::StrCat(View(file), ": ", shown, ": ", View(reason))),
                   shown);
}

}  // namespace qanat::model
