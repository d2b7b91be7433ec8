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

  void fill(const Slice& x, float value) override;
  void copy(const Slice& y, const Slice& x) override;
  void cast(const Slice& y, const Slice& x) override;
  void add(const Slice& z, const Slice& x, const Slice& y) override;
  void scale(const Slice& x, float factor) override;
  void scale(const Slice& x, const Slice& factor) override;
  void scale_if(const Slice& x, float factor, const Slice& condition) override;
  void at_least(const Slice& flag, const Slice& x, float threshold) override;
  void add_squares(const Slice& sum, const Slice& x) override;
  void add_sum(const Slice& sum, const Slice& x) override;
  void clip_factor(const Slice& factor, const Slice& sum_of_squares, float max_norm) override;
  void find_overflow(const Slice& flag, const Slice& x) override;
  void random_normal(const Slice& x, Random key, float mean, float deviation) override;
  void random_uniform(const Slice& x, Random key, float low, float high) override;
  void matmul(const Matrix& c, const Matrix& a, const Matrix& b, Into into, const Slice& bias) override;
  void add_rows(const Slice& bias_gradient, const Matrix& x) override;
  void gelu(const Slice& y, const Slice& x) override;
  void gelu_backward(const Slice& dx, const Slice& dy, const Slice& x) override;
  void matmul_gelu(const Slice& y, const Matrix& x, const Matrix& a, const Matrix& b, const Slice& bias) override;
  void matmul_gelu_backward(const Matrix& dx, const Matrix& a, const Matrix& b, const Slice& x) override;
  void swiglu(const Slice& y, const Slice& x, std::size_t width) override;
  void swiglu_backward(const Slice& dx, const Slice& dy, const Slice& x, std::size_t width) override;
  void layer_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight,
                  const Slice& bias) override;
  void layer_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dbias, const Slice& dy, const Slice& x,
                           const Slice& weight, const Slice& statistics, Into into) override;
  void rms_norm(const Slice& y, const Slice& statistics, const Slice& x, const Slice& weight) override;
  void rms_norm_backward(const Slice& dx, const Slice& dweight, const Slice& dy, const Slice& x, const Slice& weight,
                         const Slice& statistics, Into into) override;
  void rotate_positions(const Slice& x, RotaryShape shape, float base, Turn way) override;
  void attention(const Slice& y, const Slice& statistics, const Slice& qkv, AttentionShape shape) override;
  void attention_backward(const Slice& dqkv, const Slice& dy, const Slice& y, const Slice& qkv, const Slice& statistics,
                          AttentionShape shape) override;
  void attention_probabilities(const Slice& probabilities, const Slice& qkv, AttentionShape shape) override;
  void attention_output(const Slice& y, const Slice& probabilities, const Slice& qkv, AttentionShape shape) override;
  void attention_probabilities_backward(const Slice& dqkv, const Slice& dy, const Slice& y, const Slice& probabilities,
                                        const Slice& qkv, AttentionShape shape) override;
  void attention_block(const Slice& y, const Slice& statistics, const Slice& q, const Slice& kv,
                       AttentionBlock block) override;
  void attention_block_backward(const Slice& dq, const Slice& dkv, const Slice& dy, const Slice& y,
                                const Slice& statistics, const Slice& q, const Slice& kv,
                                AttentionBlock block) override;
  void embedding(const Slice& y, const Slice& tokens, const Slice& table, const Slice& positions,
                 std::size_t sequence) override;
  void embedding_backward(const Slice& dtable, const Slice& dpositions, const Slice& dy, const Slice& tokens,
                          std::size_t sequence) override;
  void cross_entropy(const Slice& loss, const Slice& logits, const Slice& targets, float factor,
                     const Slice& gradient_scale) override;
  void cross_entropy_loss(const Slice& loss, const Slice& logits, const Slice& targets, float factor) override;
  void shard_tokens(const Slice& y, const Slice& x, VocabularyShard shard) override;
  void cross_entropy_statistics(const Slice& statistics, const Slice& logits, const Slice& targets,
                                VocabularyShard shard) override;
  void cross_entropy_shard(const Slice& loss, const Slice& logits, const Slice& statistics, const Slice& targets,
                           VocabularyShard shard, float factor, const Slice& gradient_scale) override;
  void top_k(const Slice& values, const Slice& indices, const Slice& x) override;
  void scatter_add(const Slice& y, const Slice& values, const Slice& indices, float factor) override;
  void quantise(const Slice& q, const Slice& scales, const Slice& x, std::size_t block, Random key) override;
  void add_dequantised(const Slice& y, const Slice& q, const Slice& scales, std::size_t block, float factor) override;
  void adamw_pieces(const Slice& parameter, const Slice& master, const Slice& m, const Slice& v, const Slice& gradient,
                    std::span<const AdamWPiece> pieces, AdamW options, const Slice& gradient_factor, const Slice& skip,
                    const Slice& skipped) override;
  void adamw(const Slice& parameter, const Slice& master, const Slice& m, const Slice& v, const Slice& gradient,
             AdamW options, const Slice& gradient_factor, const Slice& skip, const Slice& skipped) override;

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
