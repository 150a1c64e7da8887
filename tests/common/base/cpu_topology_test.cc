#include "common/base/cpu_topology.h"

#include "gtest/gtest.h"
#include "tests/fakes/fake_system.h"

namespace qanat {
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

TEST(CpuTopologyTest, TakesTheTightestLimitOnTheWayUp) {
  fakes::FakeSystem system("v2");
  system.Write("/proc/self/cgroup", "0::/pods/one/inner\n");
  system.Write("/sys/fs/cgroup/pods/cpu.max", "800000 100000\n");
  system.Write("/sys/fs/cgroup/pods/one/cpu.max", "300000 100000\n");
  system.Write("/sys/fs/cgroup/pods/one/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(ReadCpuTopology(system.root()).quota, 3);
}

TEST(CpuTopologyTest, ReadsTheRootOfItsNamespace) {
  fakes::FakeSystem system("root");
  system.Write("/proc/self/cgroup", "0::/\n");
  system.Write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(ReadCpuTopology(system.root()).quota, 1);
  EXPECT_EQ(ReadCpuTopology(system.root()).ComputeThreads(), 1);
}

TEST(CpuTopologyTest, ReadsTheFirstVersionsFiles) {
  fakes::FakeSystem system("v1");
  system.Write("/proc/self/cgroup", "5:memory:/a\n4:cpuacct,cpu:/a/b\n1:cpuset:/a\n");
  system.Write("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
  system.Write("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
  system.Write("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "500000\n");
  system.Write("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ReadCpuTopology(system.root()).quota, 5);
}

TEST(CpuTopologyTest, WhatCannotBeReadDoesNotLimit) {
  fakes::FakeSystem system("empty");
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
}  // namespace qanat
