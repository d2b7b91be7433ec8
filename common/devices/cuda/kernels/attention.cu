// Launchers of attention: they choose the type and one of the two implementations.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "common/devices/cuda/kernels/attention.hpp"
#include "common/devices/cuda/kernels/attention_launch.cuh"

namespace lockstep::kernels {

namespace {

bool aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

/// True if the GPU has enough shared memory for heads of this size.
bool has_room(int head_size) {
  if (head_size <= kShortTensorHead) return true;
  int gpu = 0, most = 0;
  return cudaGetDevice(&gpu) == cudaSuccess &&
         cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu) == cudaSuccess &&
         static_cast<std::size_t>(most) >= kLongHeadSharedBytes;
}

template <class T>
bool fits_tensor_cores(const AttentionArguments<T>& a) {
  return a.head_size % 8 == 0 && a.head_size <= kLongestTensorHead && aligned(a.qkv) && aligned(a.y) && aligned(a.dy) &&
         aligned(a.dqkv) && has_room(a.head_size);
}

/// Arrays of an operation; those it does not use are empty.
struct Arrays {
  Array qkv, y, log_sums, probabilities, dy, dqkv;
};

template <class T>
AttentionArguments<T> arguments_of(const Arrays& arrays, AttentionSize size) {
  AttentionArguments<T> a{};
  a.qkv = arrays.qkv.as<const T>();
  a.y = arrays.y.as<T>();
  a.log_sums = arrays.log_sums.as<float>();
  a.probabilities = arrays.probabilities.as<T>();
  a.dy = arrays.dy.as<const T>();
  a.dqkv = arrays.dqkv.as<T>();
  a.positions = static_cast<int>(size.positions);
  a.heads = static_cast<int>(size.heads);
  a.head_size = static_cast<int>(size.head_size);
  a.scale = 1.0f / std::sqrt(static_cast<float>(size.head_size));
  return a;
}

/// Calls f(arguments of qkv's type, B·h), unless there is nothing to do.
template <class F>
void with_type(const Arrays& arrays, AttentionSize size, F f) {
  const std::size_t heads = size.batch * size.heads;
  if (arrays.qkv.size == 0) return;
  switch (arrays.qkv.dtype) {
    case DType::bf16: return f(arguments_of<__nv_bfloat16>(arrays, size), heads);
    case DType::f16: return f(arguments_of<__half>(arrays, size), heads);
    default: return f(arguments_of<float>(arrays, size), heads);
  }
}

/// True for operations that can use tensor cores: 16-bit types, whose probabilities are not stored.
template <class T>
bool wants_tensor_cores(const AttentionArguments<T>& a) {
  return sizeof(T) == 2 && !a.probabilities;
}

template <class T>
bool forward(const AttentionArguments<T>& a, std::size_t heads, cudaStream_t stream) {
  if constexpr (sizeof(T) == 2)
    if (wants_tensor_cores(a) && fits_tensor_cores(a)) {
      attention_forward_tensor(a, heads, stream);
      return true;
    }
  attention_forward_plain(a, heads, stream);
  return !wants_tensor_cores(a);
}

template <class T>
bool backward(const AttentionArguments<T>& a, std::size_t heads, cudaStream_t stream) {
  if constexpr (sizeof(T) == 2)
    if (wants_tensor_cores(a) && fits_tensor_cores(a)) {
      attention_backward_tensor(a, heads, stream);
      return true;
    }
  attention_backward_plain(a, heads, stream);
  return !wants_tensor_cores(a);
}

bool backward(const Queue& queue, const Arrays& arrays, AttentionSize size) {
  void* const row_dots = queue.workspace.take(size.batch * size.heads * size.positions * sizeof(float));
  bool well = true;
  with_type(arrays, size, [&](auto a, std::size_t heads) {
    a.row_dots = static_cast<float*>(row_dots);
    well = backward(a, heads, queue.stream);
  });
  return well;
}

}  // namespace

bool attention(const Queue& queue, Array y, Array log_sums, Array qkv, AttentionSize size) {
  bool well = true;
  with_type({qkv, y, log_sums}, size,
            [&](const auto& a, std::size_t heads) { well = forward(a, heads, queue.stream); });
  return well;
}

bool attention_backward(const Queue& queue, Array dqkv, Array dy, Array y, Array qkv, Array log_sums,
                        AttentionSize size) {
  return backward(queue, {qkv, y, log_sums, {}, dy, dqkv}, size);
}

void attention_probabilities(const Queue& queue, Array probabilities, Array qkv, AttentionSize size) {
  with_type({qkv, {}, {}, probabilities}, size,
            [&](const auto& a, std::size_t heads) { attention_probabilities_plain(a, heads, queue.stream); });
}

void attention_output(const Queue& queue, Array y, Array probabilities, Array qkv, AttentionSize size) {
  with_type({qkv, y, {}, probabilities}, size,
            [&](const auto& a, std::size_t heads) { forward(a, heads, queue.stream); });
}

void attention_probabilities_backward(const Queue& queue, Array dqkv, Array dy, Array y, Array probabilities, Array qkv,
                                      AttentionSize size) {
  backward(queue, {qkv, y, {}, probabilities, dy, dqkv}, size);
}

}  // namespace lockstep::kernels
