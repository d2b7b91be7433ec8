// What kernels are written with, and how they are started. The same .cu file is compiled twice: by nvcc for a GPU, and
// by the host's compiler for the fake GPU, which runs kernels in tests on machines without one. A kernel may use
// blockIdx … gridDim, __shared__ arrays of trivial types, dynamic_shared, __syncthreads, __syncwarp, the warp's
// shuffles and votes, atomics, float math, and the products of tensor_cores.hpp. <kernel_language.hpp> and
// <tensor_cores.hpp> are found by the include path: for nvcc in common/devices/cuda/language; the fake GPU brings its
// own. This file and all kernels are C++17.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <kernel_language.hpp>

namespace lockstep::kernels {

/// Throws Error, naming the kernel, unless `status` is cudaSuccess. `step` says what was tried.
void check_launch(cudaError_t status, const void* kernel, const char* step);

/// More dynamic shared memory than this must be asked for, kernel by kernel.
constexpr std::size_t kUnaskedSharedBytes = 48 * 1024;

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
  check_launch(start(kernel, grid, block, shared_bytes, stream, arguments...), name, "launch");
}

}  // namespace lockstep::kernels
