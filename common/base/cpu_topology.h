// Which CPUs this process may compute on, and how many of them its cgroup pays for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qanat {

struct CpuTopology {
  std::vector<int> cpus;  // of the cpuset, ascending, never empty
  int quota = 0;          // whole CPUs of time that the cgroup allows; 0: unlimited

  // min(cpuset, quota), at least 1.
  int ComputeThreads() const;
};

// Reads the calling thread's affinity mask and the CPU limits of its cgroup and of all above it, version 2
// (cpu.max) or 1 (cpu.cfs_quota_us). What cannot be read does not limit. `root` is prefixed to /proc and
// /sys.
CpuTopology ReadCpuTopology(const std::string& root = "");

// The calling thread's affinity mask, ascending, never empty.
std::vector<int> AllowedCpus();

// Whole CPUs of "quota period", the text of cpu.max, rounded down but at least 1; nullopt for "max" and for
// what is no limit.
std::optional<int> ParseCpuMax(std::string_view text);

}  // namespace qanat
