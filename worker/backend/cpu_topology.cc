#include "worker/backend/cpu_topology.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace qanat::backend {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The limit in one cgroup's folder, whichever version wrote it.
std::optional<int> FolderLimit(const std::string& folder) {
  const std::string v2 = ReadFile(folder + "/cpu.max");
  if (!v2.empty()) return ParseCpuMax(v2);
  const std::string quota = ReadFile(folder + "/cpu.cfs_quota_us");
  if (quota.empty()) return std::nullopt;
  return ParseCpuMax(quota + " " + ReadFile(folder + "/cpu.cfs_period_us"));
}

// The smallest limit on the way from `path` up to `mount`.
std::optional<int> LimitUpwards(const std::string& mount, std::string path) {
  std::optional<int> smallest;
  while (true) {
    const std::optional<int> limit = FolderLimit(mount + path);
    if (limit && (!smallest || *limit < *smallest)) smallest = limit;
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return smallest;
    path.resize(slash);
  }
}

// Where the CPU controller of a line of /proc/self/cgroup is mounted; empty when the line is not about CPUs.
std::string CpuMount(std::string_view controllers) {
  if (controllers.empty()) return "/sys/fs/cgroup";
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "cpu") return "/sys/fs/cgroup/cpu";
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return "";
}

// Lines are "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version 1).
std::optional<int> CgroupLimit(const std::string& root) {
  std::istringstream lines(ReadFile(root + "/proc/self/cgroup"));
  std::optional<int> smallest;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string mount = CpuMount(std::string_view(line).substr(first + 1, second - first - 1));
    if (mount.empty()) continue;
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    const std::optional<int> limit = LimitUpwards(root + mount, path);
    if (limit && (!smallest || *limit < *smallest)) smallest = limit;
  }
  return smallest;
}

}  // namespace

int CpuTopology::ComputeThreads() const {
  const int available = static_cast<int>(cpus.size());
  return std::max(1, quota > 0 ? std::min(available, quota) : available);
}

CpuTopology ReadCpuTopology(const std::string& root) {
  return {AllowedCpus(), CgroupLimit(root).value_or(0)};
}

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

std::optional<int> ParseCpuMax(std::string_view text) {
  std::istringstream fields{std::string(text)};
  long long quota = 0;
  long long period = 0;
  if (!(fields >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<int>(std::max(1LL, quota / period));
}

}  // namespace qanat::backend
