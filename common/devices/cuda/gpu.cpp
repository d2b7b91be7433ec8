#include "common/devices/cuda/gpu.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "common/devices/cuda/status.hpp"

namespace lockstep::cuda {

namespace {

constexpr int kOldestCapability = 80;  // A100: the oldest architecture that CMake compiles for

[[noreturn]] void no_device(const std::string& why) {
  (void)cudaGetLastError();  // clears it, so that the next check does not find this error
  throw NoDevice(fmt::format("no CUDA device ({}, {})", why, place()));
}

}  // namespace

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

int count_gpus() {
  // One hardware queue per stream, if there are enough: with the default of 8, streams wait for each other. The driver
  // reads this when it starts, so it must come first.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  if (driver == 0) no_device("no NVIDIA driver is installed");
  if (driver / 1000 < runtime / 1000)
    throw Error(Verdict::fail,
                fmt::format("the NVIDIA driver supports CUDA up to {}, and this program was built with CUDA {}: update "
                            "the driver, or build with a toolkit that it supports ({})",
                            version_text(driver), version_text(runtime), place()));
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) no_device(cudaGetErrorString(status));
  check(status, "cudaGetDeviceCount");
  if (count == 0) no_device("the driver shows no GPU");
  return count;
}

Gpu open_gpu(int index) {
  const int count = count_gpus();
  if (index < 0 || index >= count)
    throw Error(Verdict::usage, fmt::format("GPU {} was asked for; this process sees {} ({})", index, count, place()));
  cudaDeviceProp properties{};
  check(cudaSetDevice(index), "cudaSetDevice");
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  Gpu gpu{.index = index,
          .name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .memory_bytes = properties.totalGlobalMem};
  check(cudaDriverGetVersion(&gpu.driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&gpu.runtime), "cudaRuntimeGetVersion");
  if (gpu.major * 10 + gpu.minor < kOldestCapability)
    throw Error(Verdict::fail,
                fmt::format("{} is of compute capability {}.{}, and the kernels need {}.{} or later ({})", gpu.name,
                            gpu.major, gpu.minor, kOldestCapability / 10, kOldestCapability % 10, place()));
  return gpu;
}

}  // namespace lockstep::cuda
