// The host as output files describe it: cores, quotas, names of processors.
#include "common/support/host/host.hpp"

#include <gtest/gtest.h>

#include "common/support/tests/folder_testing.hpp"

namespace lockstep {
namespace {

class HostFiles : public TestFolder {};

TEST_F(HostFiles, TwoThreadsOfOneCoreCountOnce) {
  for (int thread = 0; thread < 8; ++thread)
    put("sys/devices/system/cpu/cpu" + std::to_string(thread) + "/topology/thread_siblings_list",
        std::to_string(thread % 4) + "," + std::to_string(thread % 4 + 4) + "\n");
  put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n");
  Host all = read_host(folder_, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(all.processor, "Some CPU @ 3 GHz");
  EXPECT_EQ(all.hardware_threads, 8);
  EXPECT_EQ(all.cores_in_affinity, 4);
  EXPECT_EQ(all.usable_cores, 4);
  EXPECT_EQ(read_host(folder_, {0, 4, 1}).usable_cores, 2);
}

TEST_F(HostFiles, ACgroupsQuotaLimits) {
  put("proc/self/cgroup", "0::/user/app\n");
  put("sys/fs/cgroup/user/app/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/user/cpu.max", "250000 100000\n");
  put("sys/fs/cgroup/user/app/memory.max", "1000000\n");
  put("proc/meminfo", "MemTotal:       16000 kB\n");
  Host host = read_host(folder_, {0, 1, 2, 3});
  EXPECT_EQ(host.quota_cores, 2.5);
  EXPECT_EQ(host.usable_cores, 2);
  EXPECT_EQ(host.memory_bytes, 1000000);
}

TEST_F(HostFiles, AVersion1QuotaLimitsAndBelowOneCoreIsOne) {
  put("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/docker/abc\n");
  put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "50000\n");
  put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Host host = read_host(folder_, {0, 1, 2, 3});
  EXPECT_EQ(host.quota_cores, 0.5);
  EXPECT_EQ(host.usable_cores, 1);
}

TEST_F(HostFiles, ArmsProcessorsHaveNumbers) {
  put("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 2100.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n");
  EXPECT_EQ(read_host(folder_, {0}).processor, "Arm processor, implementer 0x41, part 0xd40");
}

TEST_F(HostFiles, NothingToReadMeansNoLimit) {
  Host host = read_host(folder_, {0, 1, 2});
  EXPECT_EQ(host.processor, "unknown");
  EXPECT_EQ(host.quota_cores, 0);
  EXPECT_EQ(host.usable_cores, 3);
}

}  // namespace
}  // namespace lockstep
