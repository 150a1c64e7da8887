#include "common/base/available_memory.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "common/base/cgroup.h"

namespace qanat {
namespace {

// The number behind the word `key` in a file of such lines.
std::optional<int64_t> NumberOf(std::string_view key, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string word;
    int64_t number = 0;
    if (fields >> word && word == key && fields >> number) return number;
  }
  return std::nullopt;
}

// "max" is none.
std::optional<int64_t> NumberIn(const std::string& path) {
  std::istringstream text(ReadSmallFile(path));
  int64_t number = 0;
  if (!(text >> number)) return std::nullopt;
  return number;
}

// What is left below the limit in one folder, whichever version wrote it.
std::optional<int64_t> RoomIn(const std::string& folder) {
  std::optional<int64_t> limit = NumberIn(folder + "/memory.max");
  std::optional<int64_t> used = NumberIn(folder + "/memory.current");
  std::string files[] = {"inactive_file", "active_file"};
  if (!used.has_value()) {
    limit = NumberIn(folder + "/memory.limit_in_bytes");
    used = NumberIn(folder + "/memory.usage_in_bytes");
    for (std::string& key : files) key.insert(0, "total_");
  }
  if (!limit.has_value()) return std::nullopt;
  const std::string stat = ReadSmallFile(folder + "/memory.stat");
  int64_t held = used.value_or(0);
  for (const std::string& key : files) held -= NumberOf(key, stat).value_or(0);
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, held));
}

}  // namespace

std::optional<int64_t> AvailableMemory(const std::string& root) {
  std::optional<int64_t> least = NumberOf("MemAvailable:", ReadSmallFile(root + "/proc/meminfo"));
  if (least.has_value()) *least *= 1024;
  for (const std::string& folder : CgroupFolders(root, "memory")) {
    const std::optional<int64_t> room = RoomIn(folder);
    if (room.has_value()) least = std::min(*room, least.value_or(*room));
  }
  return least;
}

}  // namespace qanat
