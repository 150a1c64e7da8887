#include "worker/backend/cpu_topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace qanat::backend {
namespace {

TEST(CpuTopologyTest, ParsesCpuMax) {
  EXPECT_EQ(ParseCpuMax("max 100000\n"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("200000 100000\n"), 2);
  EXPECT_EQ(ParseCpuMax("250000 100000"), 2);
  EXPECT_EQ(ParseCpuMax("50000 100000"), 1);
  EXPECT_EQ(ParseCpuMax("-1\n 100000\n"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("400000\n 100000\n"), 4);
  EXPECT_EQ(ParseCpuMax("100000 0"), std::nullopt);
  EXPECT_EQ(ParseCpuMax(""), std::nullopt);
  EXPECT_EQ(ParseCpuMax("nonsense"), std::nullopt);
}

// A /proc and a /sys of one's own.
class FakeSystem {
 public:
  explicit FakeSystem(const std::string& name) : root_(testing::TempDir() + "/cpu_topology_" + name) {
    std::filesystem::remove_all(root_);
  }
  ~FakeSystem() { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

TEST(CpuTopologyTest, TakesTheTightestLimitOnTheWayUp) {
  FakeSystem system("v2");
  system.Write("/proc/self/cgroup", "0::/pods/one/inner\n");
  system.Write("/sys/fs/cgroup/pods/cpu.max", "800000 100000\n");
  system.Write("/sys/fs/cgroup/pods/one/cpu.max", "300000 100000\n");
  system.Write("/sys/fs/cgroup/pods/one/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(ReadCpuTopology(system.root()).quota, 3);
}

TEST(CpuTopologyTest, ReadsTheRootOfItsNamespace) {
  FakeSystem system("root");
  system.Write("/proc/self/cgroup", "0::/\n");
  system.Write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(ReadCpuTopology(system.root()).quota, 1);
  EXPECT_EQ(ReadCpuTopology(system.root()).ComputeThreads(), 1);
}

TEST(CpuTopologyTest, ReadsTheFirstVersionsFiles) {
  FakeSystem system("v1");
  system.Write("/proc/self/cgroup", "5:memory:/a\n4:cpuacct,cpu:/a/b\n1:cpuset:/a\n");
  system.Write("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
  system.Write("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
  system.Write("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "500000\n");
  system.Write("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ReadCpuTopology(system.root()).quota, 5);
}

TEST(CpuTopologyTest, WhatCannotBeReadDoesNotLimit) {
  FakeSystem system("empty");
  const CpuTopology topology = ReadCpuTopology(system.root());
  EXPECT_EQ(topology.quota, 0);
  EXPECT_EQ(topology.ComputeThreads(), static_cast<int>(topology.cpus.size()));
  EXPECT_GE(topology.cpus.size(), 1u);
}

TEST(CpuTopologyTest, AQuotaAboveTheCpusetDoesNotRaiseIt) {
  EXPECT_EQ((CpuTopology{{0, 3}, 8}.ComputeThreads()), 2);
  EXPECT_EQ((CpuTopology{{0, 1, 2, 3}, 3}.ComputeThreads()), 3);
}

}  // namespace
}  // namespace qanat::backend
