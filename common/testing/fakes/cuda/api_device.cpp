// The CUDA runtime's functions about devices, versions and errors.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "common/testing/fakes/cuda/call.hpp"

namespace lockstep::fake {

HostThread& host_thread() {
  static thread_local HostThread one;
  return one;
}

cudaError_t absent(const Settings& settings) {
  if (settings.driver_version < settings.runtime_version / 1000 * 1000) return cudaErrorInsufficientDriver;
  return settings.devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

namespace {

constexpr int kSharedPerBlock = 48 * 1024, kSharedReserved = 1024;
constexpr int kThreadsPerBlock = 1024, kThreadsPerMultiprocessor = 2048, kBlocksPerMultiprocessor = 32;
constexpr int kRegisters = 65536, kL2Bytes = 50 << 20, kFirstBus = 0x1b;

cudaDeviceProp properties(const Settings& settings, int device) {
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof p.name, "%s", settings.name.c_str());
  std::memset(p.uuid.bytes, device + 1, sizeof p.uuid.bytes);
  p.totalGlobalMem = settings.memory_bytes;
  p.sharedMemPerBlock = kSharedPerBlock;
  p.sharedMemPerBlockOptin = settings.most_shared_bytes;
  p.sharedMemPerMultiprocessor = settings.most_shared_bytes + kSharedReserved;
  p.reservedSharedMemPerBlock = kSharedReserved;
  p.regsPerBlock = p.regsPerMultiprocessor = kRegisters;
  p.warpSize = 32;
  p.maxThreadsPerBlock = kThreadsPerBlock;
  p.maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  p.maxBlocksPerMultiProcessor = kBlocksPerMultiprocessor;
  const int most_threads[] = {1024, 1024, 64}, most_blocks[] = {2147483647, 65535, 65535};
  std::copy_n(most_threads, 3, p.maxThreadsDim);
  std::copy_n(most_blocks, 3, p.maxGridSize);
  p.major = settings.major;
  p.minor = settings.minor;
  p.multiProcessorCount = settings.multiprocessors;
  p.totalConstMem = 65536;
  p.memPitch = 2147483647;
  p.textureAlignment = 512;
  p.l2CacheSize = kL2Bytes;
  p.memoryBusWidth = 5120;
  p.asyncEngineCount = 3;
  p.pciBusID = kFirstBus + device;
  p.concurrentKernels = p.unifiedAddressing = p.memoryPoolsSupported = p.canMapHostMemory = 1;
  p.streamPrioritiesSupported = p.globalL1CacheSupported = p.localL1CacheSupported = p.ECCEnabled = 1;
  return p;
}

cudaError_t attribute(int* value, cudaDeviceAttr attribute, const cudaDeviceProp& p) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(p.sharedMemPerBlockOptin); break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = static_cast<int>(p.sharedMemPerMultiprocessor); break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    case cudaDevAttrClockRate: *value = 1980000; break;        // kHz, like an H200
    case cudaDevAttrMemoryClockRate: *value = 3201000; break;  // kHz
    default: return cudaErrorNotSupported;
  }
  return cudaSuccess;
}

bool exists(const Runtime& r, int device) { return device >= 0 && device < r.settings.devices; }

}  // namespace

}  // namespace lockstep::fake

using namespace lockstep::fake;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  if (!version) return remember(cudaErrorInvalidValue);
  *version = runtime().settings.driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (!version) return remember(cudaErrorInvalidValue);
  *version = runtime().settings.runtime_version;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  host_thread().last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t broken = runtime().broken;
  return broken != cudaSuccess ? broken : host_thread().last_error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call([&](Runtime& r, Lock&, int) {
    *count = r.settings.devices;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call([&](Runtime&, Lock&, int current) {
    *device = current;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call([&](Runtime& r, Lock&, int) {
    if (!exists(r, device)) return cudaErrorInvalidDevice;
    host_thread().device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* result, int device) {
  return call([&](Runtime& r, Lock&, int) {
    if (!exists(r, device)) return cudaErrorInvalidDevice;
    *result = properties(r.settings, device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return call([&](Runtime& r, Lock&, int) {
    if (!exists(r, device)) return cudaErrorInvalidDevice;
    return attribute(value, which, properties(r.settings, device));
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([](Runtime& r, Lock& lock, int device) {
    r.wait_for_all(lock, device);
    return r.broken;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&](Runtime& r, Lock&, int) {
    if (!exists(r, device) || !exists(r, peer)) return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}

}  // extern "C"
