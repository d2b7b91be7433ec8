// The class behind make_cuda_device. Its methods call the kernels of kernels/operations.hpp (cuda_device.cpp), the
// matrix products of gemm.hpp and the attention kernels (cuda_device_products.cpp).
#pragma once

#include "common/devices/cuda/attention_fused.hpp"
#include "common/devices/cuda/cuda_device.hpp"
#include "common/devices/cuda/gemm.hpp"
#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::cuda {

inline kernels::Array array(const Slice& slice) { return {slice.data(), slice.size(), slice.dtype()}; }

class StreamDevice final : public CudaDevice {
 public:
  /// Without supplies, allocates what it needs on first use.
  StreamDevice(cudaStream_t stream, bool tf32, const DeviceSupplies* supplies, int index);
  ~StreamDevice() override;
  StreamDevice(const StreamDevice&) = delete;

  void check_indices(Location where) override;

  LOCKSTEP_DEVICE_OPERATIONS(, override)

  void matmul_gelu(const Slice& y, const Matrix& x, const Matrix& a, const Matrix& b, const Slice& bias) override;
  void matmul_gelu_backward(const Matrix& dx, const Matrix& a, const Matrix& b, const Slice& x) override;
  void adamw_pieces(const Slice& parameter, const Slice& master, const Slice& m, const Slice& v, const Slice& gradient,
                    std::span<const AdamWPiece> pieces, AdamW options, const Slice& gradient_factor, const Slice& skip,
                    const Slice& skipped) override;

 private:
  kernels::Queue queue() { return {stream_, workspace_, fault_}; }
  /// qkv with a copy of k and v for each head, and room for its gradient; if no heads share k and v, qkv itself and
  /// nothing.
  struct Spread {
    kernels::Array qkv, gradient;
  };
  Spread spread(const Slice& qkv, AttentionShape shape, bool backward = false);
  void add_spread(const Slice& dqkv, const Spread& spread, AttentionShape shape);

  cudaStream_t stream_;
  kernels::Workspace workspace_;
  kernels::Workspace spread_;
  Gemm gemm_;
  FusedAttention fused_attention_;
  kernels::Fault* fault_ = nullptr;  // in host memory that the GPU can write
  bool owns_fault_;
};

}  // namespace lockstep::cuda
