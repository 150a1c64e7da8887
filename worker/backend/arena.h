// Memory that lives as long as the backend: weights, activations, the KV cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace qanat::backend {

// What: hands out zeroed memory on cache-line boundaries from large mappings with huge pages where the system
// has them, and never takes any back. Owns the mappings; pointers are good as long as it lives. Threads: one.
// Errors: RESOURCE_EXHAUSTED with both sizes when the system says it has less than was asked for.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // `what` names the memory in the error.
  absl::StatusOr<std::byte*> Allocate(int64_t bytes, const char* what);

 private:
  struct Mapping {
    std::byte* base;
    int64_t size;
    int64_t used;
  };

  absl::Status Map(int64_t bytes, const char* what);

  std::vector<Mapping> mappings_;
};

// RESOURCE_EXHAUSTED with both sizes when AvailableMemory() is less than `bytes`.
absl::Status CheckAvailable(int64_t bytes, const char* what);

}  // namespace qanat::backend
