#include "common/base/cpu_topology.h"

#include <sched.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "common/base/cgroup.h"

namespace qanat {
namespace {

// The limit in one cgroup's folder, whichever version wrote it.
std::optional<int> FolderLimit(const std::string& folder) {
  const std::string v2 = ReadSmallFile(folder + "/cpu.max");
  if (!v2.empty()) return ParseCpuMax(v2);
  const std::string quota = ReadSmallFile(folder + "/cpu.cfs_quota_us");
  if (quota.empty()) return std::nullopt;
  return ParseCpuMax(quota + " " + ReadSmallFile(folder + "/cpu.cfs_period_us"));
}

}  // namespace

int CpuTopology::ComputeThreads() const {
  const int available = static_cast<int>(cpus.size());
  return std::max(1, quota > 0 ? std::min(available, quota) : available);
}

CpuTopology ReadCpuTopology(const std::string& root) {
  CpuTopology topology{AllowedCpus(), 0};
  for (const std::string& folder : CgroupFolders(root, "cpu")) {
    const std::optional<int> limit = FolderLimit(folder);
    if (limit.has_value() && (topology.quota == 0 || *limit < topology.quota)) topology.quota = *limit;
  }
  return topology;
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

}  // namespace qanat
