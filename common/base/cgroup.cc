#include "common/base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace qanat {
namespace {

bool Lists(std::string_view controllers, std::string_view controller) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == controller) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

std::vector<std::string> CgroupFolders(const std::string& root, std::string_view controller) {
  std::vector<std::string> folders;
  // Lines are "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version 1).
  std::istringstream lines(ReadSmallFile(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    std::string mount = root + "/sys/fs/cgroup";
    if (!controllers.empty()) {
      if (!Lists(controllers, controller)) continue;
      mount.append("/").append(controller);
    }
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    while (true) {
      folders.push_back(mount + path);
      const size_t slash = path.rfind('/');
      if (slash == std::string::npos) break;
      path.resize(slash);
    }
  }
  return folders;
}

std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace qanat
