#include "worker/backend/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/available_memory.h"
#include "common/base/status_macros.h"

namespace qanat::backend {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kMinMapping = int64_t{16} << 20;

int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Arena::~Arena() {
  for (const Mapping& mapping : mappings_) munmap(mapping.base, mapping.size);
}

absl::StatusOr<std::byte*> Arena::Allocate(int64_t bytes, const char* what) {
  const int64_t size = RoundUp(std::max<int64_t>(bytes, 1), kLine);
  if (mappings_.empty() || mappings_.back().size - mappings_.back().used < size) {
    QANAT_RETURN_IF_ERROR(Map(size, what));
  }
  Mapping& mapping = mappings_.back();
  std::byte* memory = mapping.base + mapping.used;
  mapping.used += size;
  return memory;
}

absl::Status Arena::Map(int64_t bytes, const char* what) {
  QANAT_RETURN_IF_ERROR(CheckAvailable(bytes, what));
  const int64_t size = RoundUp(std::max(bytes, kMinMapping), kHugePage);
  void* base =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, " needs ", bytes, " bytes, which the system refused"));
  }
  // Streaming weights through 4 KiB pages costs a page walk every 64 lines. A refusal costs speed only.
  madvise(base, size, MADV_HUGEPAGE);
  mappings_.push_back({static_cast<std::byte*>(base), size, 0});
  return absl::OkStatus();
}

absl::Status CheckAvailable(int64_t bytes, const char* what) {
  if (bytes <= 0) return absl::OkStatus();
  const std::optional<int64_t> available = AvailableMemory();
  if (!available.has_value() || bytes <= *available) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " needs ", bytes, " bytes, but only ", *available, " are available"));
}

}  // namespace qanat::backend
