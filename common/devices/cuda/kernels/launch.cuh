// What kernels are written with, and how they are started. The same .cu file is compiled twice: by nvcc for a GPU, and
// by the host's compiler for the pretend GPU, which runs kernels in tests on machines without one. A kernel may use
// blockIdx … gridDim, __shared__ arrays of trivial types, dynamic_shared, __syncthreads, __syncwarp, the warp's
// shuffles and votes, atomics, float math, and the products of mma.cuh; what else the pretend GPU knows is in
// common/cuda/pretend/kernel_language.hpp. This file and all kernels are C++17.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#ifndef __CUDACC__
#include "common/cuda/pretend/kernel_language.hpp"
#endif

namespace lockstep::kernels {

/// Throws Error, naming the kernel, unless `status` is cudaSuccess. `step` says what was tried.
void check_launch(cudaError_t status, const void* kernel, const char* step);

/// More dynamic shared memory than this must be asked for, kernel by kernel.
constexpr std::size_t kUnaskedSharedBytes = 48 * 1024;

#ifdef __CUDACC__

/// The block's dynamic shared memory (`shared_bytes` of its launch), aligned to 16 bytes.
template <typename T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char lockstep_dynamic_shared[];
  return reinterpret_cast<T*>(lockstep_dynamic_shared);
}

/// Queues `kernel` on `stream`: grid and block as in <<<…>>>, `shared_bytes` of dynamic shared memory per block. A grid
/// without blocks is no launch. Throws Error where the launch is refused; what goes wrong later shows at the next
/// check.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
            const Arguments&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const void* const name = reinterpret_cast<const void*>(kernel);
  if (shared_bytes > kUnaskedSharedBytes) {
    check_launch(
        cudaFuncSetAttribute(name, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)), name,
        "asking for shared memory");
  }
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
  check_launch(cudaGetLastError(), name, "launch");
}

#else

template <typename T>
T* dynamic_shared() {
  return static_cast<T*>(pretend::dynamic_shared_memory());
}

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
            const Arguments&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const void* const name = reinterpret_cast<const void*>(kernel);
  if (shared_bytes > kUnaskedSharedBytes) {
    check_launch(
        cudaFuncSetAttribute(name, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)), name,
        "asking for shared memory");
  }
  auto thread = [kernel, values = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)] {
    std::apply(kernel, values);
  };
  check_launch(pretend::launch_kernel({name, grid, block, shared_bytes}, std::move(thread), stream), name, "launch");
}

#endif

}  // namespace lockstep::kernels
