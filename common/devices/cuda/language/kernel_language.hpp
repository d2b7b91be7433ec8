// Additions to CUDA C++ that kernels need, for nvcc. The fake GPU has a file with the same name; the include path
// chooses.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace lockstep::kernels {

/// The block's dynamic shared memory (`shared_bytes` of its launch), aligned to 16 bytes.
template <typename T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char lockstep_dynamic_shared[];
  return reinterpret_cast<T*>(lockstep_dynamic_shared);
}

/// Runs kernel<<<grid, block, shared_bytes, stream>>>(arguments…) and returns its status.
template <typename... Parameters, typename... Arguments>
cudaError_t start(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                  const Arguments&... arguments) {
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
  return cudaGetLastError();
}

}  // namespace lockstep::kernels
