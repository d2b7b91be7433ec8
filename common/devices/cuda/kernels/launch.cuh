// The language of the kernels, and their launch. The same .cu file is compiled twice: by nvcc for a GPU, and by the
// host's compiler for the fake GPU, which runs kernels in tests on machines without one. A kernel may use blockIdx …
// gridDim, __shared__ arrays of trivial types, dynamic_shared, __syncthreads, __syncwarp, the warp's shuffles and
// votes, atomics, float math, and the products of tensor_cores.hpp. The include path chooses <kernel_language.hpp> and
// <tensor_cores.hpp>: nvcc uses common/devices/cuda/language, the fake GPU its own. This file and all kernels are
// C++17.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <kernel_language.hpp>

namespace lockstep::kernels {

/// Throws Error that names the kernel unless `status` is cudaSuccess. `step` says what was tried.
void check_launch(cudaError_t status, const void* kernel, const char* step);

/// Limit above which dynamic shared memory must be enabled for each kernel.
constexpr std::size_t kUnaskedSharedBytes = 48 * 1024;

/// Queues `kernel` on `stream`: grid and block as in <<<…>>>, `shared_bytes` of dynamic shared memory per block. An
/// empty grid launches nothing. Throws Error if the launch is rejected; later errors show at the next check.
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
