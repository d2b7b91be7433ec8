// The CUDA runtime's functions about kernels, and their launch.
#include <fmt/format.h>

#include <algorithm>

#include "common/testing/fakes/cuda/call.hpp"
#include "common/testing/fakes/cuda/emulator.hpp"
#include "common/testing/fakes/cuda/kernel_name.hpp"

using namespace lockstep::fake;

namespace {

constexpr std::size_t kUnaskedSharedBytes = 48 * 1024;
constexpr unsigned kMostThreads = 1024;

cudaError_t refusal(const Runtime& r, const KernelLaunch& launch) {
  const dim3 grid = launch.grid, block = launch.block;
  const bool empty = grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0;
  const bool large = grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535 || block.x > kMostThreads ||
                     block.y > kMostThreads || block.z > 64 || block.x * block.y * block.z > kMostThreads;
  if (empty || large) return cudaErrorInvalidConfiguration;
  const auto asked = r.most_shared_bytes.find(launch.kernel);
  const std::size_t allowed = asked == r.most_shared_bytes.end() ? kUnaskedSharedBytes : asked->second;
  return launch.shared_bytes > allowed ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace

namespace lockstep::fake {

cudaError_t launch_kernel(KernelLaunch launch, std::function<void()> thread, cudaStream_t handle) {
  return call_on(handle, [&](Runtime& r, Lock& lock, CUstream_st* stream) {
    if (const cudaError_t why = refusal(r, launch); why != cudaSuccess) return why;
    ++r.launches;
    launch.order = r.draw_order();
    launch.check_threads = r.settings.check_threads;
    auto error = std::make_shared<std::string>();
    r.add(lock, stream,
          {.run =
               [launch, thread = std::move(thread), error] {
                 *error = run_kernel(launch, thread);
                 return true;
               },
           .after =
               [&r, error] {
                 if (!error->empty()) r.fault(cudaErrorLaunchFailure, *error);
               },
           .multiprocessors = 1});
    return cudaSuccess;
  });
}

}  // namespace lockstep::fake

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return call([&](Runtime& r, Lock&, int) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || value > r.settings.most_shared_bytes) return cudaErrorInvalidValue;
    r.most_shared_bytes[kernel] = value;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetName(const char** name, const void* kernel) {
  static std::map<const void*, std::string> names;  // the caller keeps the pointer
  return call([&](Runtime&, Lock&, int) {
    if (!name || !kernel) return cudaErrorInvalidValue;
    *name = names.try_emplace(kernel, kernel_name(kernel)).first->second.c_str();
    return cudaSuccess;
  });
}

}  // extern "C"
