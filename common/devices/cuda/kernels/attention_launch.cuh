// Launches of the attention kernels in their two implementations; attention.cu chooses.
#pragma once

#include "common/devices/cuda/kernels/attention_arguments.cuh"
#include "common/devices/cuda/kernels/launch.cuh"

namespace lockstep::kernels {

constexpr int kShortTensorHead = 64, kLongestTensorHead = 128;
/// Upper bound of a block's shared memory for heads longer than kShortTensorHead. A100, H100 and B200 have it; GPUs for
/// graphics have 99 KiB.
constexpr std::size_t kLongHeadSharedBytes = 104 * 1024;

/// Grid with one block for each `rows` positions of each of the B·h heads.
inline dim3 attention_grid(std::size_t heads, int positions, int rows) {
  return dim3(
      static_cast<unsigned>(heads * ((static_cast<std::size_t>(positions) + static_cast<std::size_t>(rows) - 1) /
                                     static_cast<std::size_t>(rows))));
}

/// On tensor cores: 16-bit types, heads of at most 128 elements and a multiple of 8, rows aligned to 16 bytes.
template <class T>
void attention_forward_tensor(const AttentionArguments<T>& a, std::size_t heads, cudaStream_t stream);
template <class T>
void attention_backward_tensor(const AttentionArguments<T>& a, std::size_t heads, cudaStream_t stream);

/// By plain loops, for every type and shape; from stored probabilities if they are given.
template <class T>
void attention_forward_plain(const AttentionArguments<T>& a, std::size_t heads, cudaStream_t stream);
template <class T>
void attention_backward_plain(const AttentionArguments<T>& a, std::size_t heads, cudaStream_t stream);
template <class T>
void attention_probabilities_plain(const AttentionArguments<T>& a, std::size_t heads, cudaStream_t stream);

}  // namespace lockstep::kernels
