#include "common/base/available_memory.h"

#include "gtest/gtest.h"
#include "tests/fakes/fake_system.h"

namespace qanat {
namespace {

using fakes::FakeSystem;

constexpr int64_t kMiB = int64_t{1} << 20;

void WriteMachine(FakeSystem& system, const std::string& cgroup) {
  system.Write("/proc/meminfo", "MemTotal: 67108864 kB\nMemFree: 1024 kB\nMemAvailable:   65536 kB\n");
  system.Write("/proc/self/cgroup", cgroup);
}

void WriteGroup(FakeSystem& system, const std::string& folder, const std::string& limit,
                const std::string& used) {
  system.Write("/sys/fs/cgroup" + folder + "/memory.max", limit + "\n");
  system.Write("/sys/fs/cgroup" + folder + "/memory.current", used + "\n");
}

TEST(AvailableMemoryTest, WithoutALimitItIsWhatTheMachineHas) {
  FakeSystem system("machine");
  WriteMachine(system, "0::/a\n");
  EXPECT_EQ(AvailableMemory(system.root()), 64 * kMiB);
  WriteGroup(system, "/a", "max", "123");
  EXPECT_EQ(AvailableMemory(system.root()), 64 * kMiB);
}

TEST(AvailableMemoryTest, TakesTheLeastRoomOnTheWayUp) {
  FakeSystem system("v2");
  WriteMachine(system, "0::/pods/one/inner\n");
  WriteGroup(system, "/pods", "41943040", "20971520");
  WriteGroup(system, "/pods/one", "31457280", "1048576");
  WriteGroup(system, "/pods/one/inner", "max", "1048576");
  EXPECT_EQ(AvailableMemory(system.root()), 20 * kMiB);
}

TEST(AvailableMemoryTest, PagesOfFilesAreFree) {
  FakeSystem system("files");
  WriteMachine(system, "0::/\n");
  WriteGroup(system, "", "10485760", "9437184");
  system.Write("/sys/fs/cgroup/memory.stat", "anon 1048576\ninactive_file 4194304\nactive_file 3145728\n");
  EXPECT_EQ(AvailableMemory(system.root()), 8 * kMiB);
}

TEST(AvailableMemoryTest, ReadsTheFirstVersionsFiles) {
  FakeSystem system("v1");
  WriteMachine(system, "5:cpu,memory:/a/b\n4:cpuacct:/a\n0::/\n");
  const std::string folder = "/sys/fs/cgroup/memory/a";
  system.Write(folder + "/b/memory.limit_in_bytes", "9223372036854771712\n");
  system.Write(folder + "/b/memory.usage_in_bytes", "1048576\n");
  system.Write(folder + "/memory.limit_in_bytes", "4194304\n");
  system.Write(folder + "/memory.usage_in_bytes", "3145728\n");
  system.Write(folder + "/memory.stat", "inactive_file 3145728\ntotal_inactive_file 1048576\n");
  EXPECT_EQ(AvailableMemory(system.root()), 2 * kMiB);
}

TEST(AvailableMemoryTest, AFullGroupHasNoRoom) {
  FakeSystem system("full");
  WriteMachine(system, "0::/a\n");
  WriteGroup(system, "/a", "1048576", "2097152");
  EXPECT_EQ(AvailableMemory(system.root()), 0);
}

TEST(AvailableMemoryTest, ALimitCountsWhereTheMachineSaysNothing) {
  FakeSystem system("silent");
  EXPECT_EQ(AvailableMemory(system.root()), std::nullopt);
  system.Write("/proc/self/cgroup", "0::/a\n");
  WriteGroup(system, "/a", "3145728", "1048576");
  EXPECT_EQ(AvailableMemory(system.root()), 2 * kMiB);
}

}  // namespace
}  // namespace qanat
