// A GPU as a Device: f32, bf16 and f16 storage, sums in f32, matrix products by cuBLASLt.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "common/runtime/device.hpp"

namespace lockstep {

/// The arithmetic of one stream: everything is queued on it, in order, and nothing waits for the GPU. Results are the
/// same bits on every rerun.
class CudaDevice : public Device {
 public:
  /// Throws the USAGE error of a token, target or index that a kernel found outside its table. A kernel cannot throw:
  /// call this when the stream was synchronised, and `where` is that place. Such an index reads zeros, has no gradient
  /// and counts nothing.
  virtual void check_indices(Location where) = 0;
};

namespace cuda {
class DeviceSupplies;
}

/// For a stream of the current device. It must be destroyed before the stream. tf32: RunOptions::tf32. Throws Error
/// where CUDA fails.
std::unique_ptr<CudaDevice> make_cuda_device(cudaStream_t stream, bool tf32 = false);
/// The same, which takes nothing that could wait for the GPU; device number `index` of those that share `supplies`.
std::unique_ptr<CudaDevice> make_cuda_device(cudaStream_t stream, bool tf32, const cuda::DeviceSupplies& supplies,
                                             int index);

/// Whether the current device does Device::matmul_gelu in one pass and gains by it: compute capability 9.0 (H100) and
/// newer. Before, cuBLASLt's kernels lose more than the pass over memory takes (so did llm.c find, whose default for
/// that is this).
bool cuda_fuses_gelu();

}  // namespace lockstep
