// Where the limits of this process's cgroup are written, in version 2 of the file system and in version 1.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qanat {

// The folders that limit this process for `controller` ("cpu", "memory"): its own cgroup's and those of all
// above it. Some may not exist: in a container the names are those of outside. `root` is prefixed to /proc
// and /sys.
std::vector<std::string> CgroupFolders(const std::string& root, std::string_view controller);

// All of a small file; empty when it cannot be read.
std::string ReadSmallFile(const std::string& path);

}  // namespace qanat
