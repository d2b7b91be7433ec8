// cuDNN's support for our attention graphs on GPUs that are not present: it describes them, chooses kernels and checks
// that they can be compiled, all without a GPU. It needs the driver's library; the toolkit's stub suffices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/devices/cuda/attention_cudnn.hpp"

namespace lockstep::cuda {
namespace {

struct Target {
  const char* name;
  int capability, multiprocessors, shared_bytes;
};
constexpr Target kTargets[] = {{"A100", 80, 108, 166912}, {"H200", 90, 132, 232448}, {"B200", 100, 148, 232448}};

/// Device descriptor in cuDNN's format; properties that attention's kernels do not depend on are the same for all.
std::string properties_of(const Target& gpu) {
  return fmt::format(
      R"({{"deviceName": "{}", "deviceVer": {}, "multiProcessorCount": {}, "maxSharedMemoryPerBlockOptin": {},
      "cudaDeviceId": 0, "driverVer": 13000, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
      "regsPerBlock": 65536, "smClockRateKHz": 1400000, "memClockRateKHz": 1600000, "l2CacheSize": 41943040,
      "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
      "pciDeviceId": 0, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "isTccDriver": 0,
      "supportCoopLaunch": 1, "totalGlobalMem": 42949672960}})",
      gpu.name, gpu.capability * 10, gpu.multiprocessors, gpu.shared_bytes);
}

struct CudnnPlans : testing::TestWithParam<Target> {
  static std::string refuses(const AttentionKey& key) {
    return cudnn_refuses(key, properties_of(GetParam()), GetParam().capability);
  }
  void SetUp() override {
    const std::string why = refuses({1, 128, 1, 1, 64, DType::bf16, false});
    if (why.find("libcuda") != std::string::npos || why.find("PREREQUISITE") != std::string::npos)
      GTEST_SKIP() << "neither the driver's library nor the toolkit's stub of it: " << why;
  }
};

TEST_P(CudnnPlans, ThereIsAKernelForEachShape) {
  // GPT-2 124M and a part of it, Llama's groups, positions that do not fill a tile, and the smallest and largest heads.
  for (const AttentionKey& key : {AttentionKey{16, 1024, 12, 12, 64},
                                  {16, 1024, 3, 3, 64},
                                  {1, 2048, 32, 8, 128},
                                  {2, 65, 4, 2, 16},
                                  {1, 2, 1, 1, 8}})
    for (const DType dtype : {DType::bf16, DType::f16})
      for (const bool backward : {false, true}) {
        AttentionKey one = key;
        one.dtype = dtype;
        one.backward = backward;
        EXPECT_EQ(refuses(one), "") << key.batch << " × " << key.positions << ", heads of " << key.head_size
                                    << (backward ? ", backward" : "");
      }
}

// 2 bytes for each of 32 × 4096² scores, plus gradients of k and v before groups are added.
TEST_P(CudnnPlans, TheBackwardOfOlderGpusIsRefusedWhereItsScoresAreTooMany) {
  const std::string why = refuses({1, 4096, 32, 8, 128, DType::bf16, true});
  if (GetParam().capability >= 100)
    EXPECT_EQ(why, "");
  else
    EXPECT_NE(why.find("workspace"), std::string::npos) << why;
  EXPECT_EQ(refuses({1, 4096, 32, 8, 128, DType::bf16, false}), "");
}

TEST_P(CudnnPlans, WhatItDoesNotTakeIsSaidBeforehand) {
  EXPECT_NE(refuses({1, 64, 2, 2, 9, DType::bf16, false}), "") << "no multiple of 8";
  EXPECT_NE(refuses({1, 64, 2, 2, 264, DType::bf16, true}), "") << "a head above 256";
  EXPECT_NE(refuses({1, 1, 2, 2, 64, DType::bf16, true}), "") << "one position";
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlans, testing::ValuesIn(kTargets),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace lockstep::cuda
