// A GPU as a Device: f32, bf16 and f16 storage, sums in f32, matrix products by cuBLASLt.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "common/runtime/device.hpp"

namespace lockstep {

/// Arithmetic on one stream: everything is queued on it, in order, and nothing waits for the GPU. Reruns are
/// bit-identical.
class CudaDevice : public Device {
 public:
  /// Throws the USAGE error of a token, target or index that a kernel found outside its table. A kernel cannot throw,
  /// so call this after synchronising the stream; `where` is that place. Such an index reads zeros, has no gradient and
  /// is not counted.
  virtual void check_indices(Location where) = 0;
};

namespace cuda {
class DeviceSupplies;
}

/// Makes a device for a stream of the current GPU. Destroy it before the stream. tf32: RunOptions::tf32. Throws Error
/// if CUDA fails.
std::unique_ptr<CudaDevice> make_cuda_device(cudaStream_t stream, bool tf32 = false);
/// The same, without any allocation that could wait for the GPU; number `index` of the devices that share `supplies`.
std::unique_ptr<CudaDevice> make_cuda_device(cudaStream_t stream, bool tf32, const cuda::DeviceSupplies& supplies,
                                             int index);

/// True if the current GPU does Device::matmul_gelu in one pass and gains by it: compute capability 9.0 (H100) and
/// newer. On older ones, cuBLASLt's fused kernels lose more than the pass over memory takes (llm.c found the same, and
/// has the same default).
bool cuda_fuses_gelu();

}  // namespace lockstep
