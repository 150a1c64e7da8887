// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace qanat {

// Bytes that can be had without swapping and without breaking the memory limit of the process's cgroup or of
// one above it, version 2 (memory.max) or 1 (memory.limit_in_bytes). Pages of files, which the system takes
// back when it needs them, count as free. nullopt when nothing tells. `root` is prefixed to /proc and /sys.
std::optional<int64_t> AvailableMemory(const std::string& root = "");

}  // namespace qanat
