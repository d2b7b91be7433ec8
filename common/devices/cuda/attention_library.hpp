// Causal attention by a library, on one stream: the whole operation of arithmetic.hpp, or its backward. If the library
// has no plan for it, the kernels of kernels/attention.hpp do it (attention_fused.hpp decides).
//
// Linking chooses the library, as for matrix products: cuDNN (attention_cudnn.cpp), none (attention_no_cudnn.cpp), or
// loops on the fake GPU (common/testing/fakes/cuda/attention.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/devices/cuda/kernels/array.hpp"

namespace lockstep::cuda {

/// Parameters that a plan depends on.
struct AttentionKey {
  std::size_t batch = 0, positions = 0, heads = 0, kv_heads = 0, head_size = 0;  // kv_heads: at least 1
  DType dtype = DType::bf16;
  bool backward = false;
  auto operator<=>(const AttentionKey&) const = default;  // NOLINT(modernize-use-nullptr): for clang-tidy 14
};

/// One call. Shapes are those of attention and attention_backward (arithmetic.hpp); nothing is empty. The forward has
/// no dy and no dqkv, and writes y and log_sums, which the backward reads.
struct AttentionCall {
  AttentionKey key;
  void* qkv = nullptr;
  void* y = nullptr;
  void* log_sums = nullptr;
  void* dy = nullptr;
  void* dqkv = nullptr;
};

/// Location of a tensor's elements (batch, head, position, channel): offset from the start of its slice and strides, in
/// elements.
struct TensorLayout {
  std::size_t offset = 0;
  std::array<std::int64_t, 4> size{}, stride{};
};
/// q, k and v are interleaved in qkv, as their gradients are in dqkv; dy is laid out like y.
struct AttentionLayout {
  TensorLayout q, k, v, y, log_sums;
};
AttentionLayout layout_of(const AttentionKey& key);

/// Requirements of any library: 16-bit elements, head sizes that are a multiple of 8, and slices aligned to 16 bytes.
/// Returns the one that `call` does not meet, or "".
std::string unsuitable(const AttentionCall& call);

/// "cuDNN 9.19.0", or empty if this program has none.
std::string attention_library_name();

/// The library, for one stream. Reruns are bit-identical.
class AttentionLibrary {
 public:
  explicit AttentionLibrary(cudaStream_t stream);
  ~AttentionLibrary();
  AttentionLibrary(const AttentionLibrary&) = delete;

  /// Queues the call, which must not be `unsuitable`, and returns ""; or returns the reason why the library cannot do
  /// it, with nothing queued. The first call with a key makes a plan: kernels are compiled and loaded, which may wait
  /// until the GPU is idle. Throws Error if CUDA fails.
  std::string run(const kernels::Queue& queue, const AttentionCall& call);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::cuda
