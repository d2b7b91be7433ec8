// Arguments of the attention kernels, and the location of a head's rows.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "common/devices/cuda/kernels/attention.hpp"

namespace lockstep::kernels {

/// dqkv and qkv: B × T × 3 × h × d; y and dy: B × T × h × d; log_sums and row_dots: B × h × T; probabilities, if
/// stored: B × h × T × T.
template <class T>
struct AttentionArguments {
  T* y;
  const T* dy;
  const T* qkv;
  T* dqkv;
  T* probabilities;
  float* log_sums;
  float* row_dots;  // Σ dy·y for each row
  int positions, heads, head_size;
  float scale;  // 1/√d
};

/// The rows of one head in an array of B × T × `parts` × h × d.
template <class T>
struct HeadRows {
  T* first;    // address of position 0
  int stride;  // distance between positions
  __device__ T* row(int position) const { return first + static_cast<long long>(position) * stride; }
};

/// `head` counts the heads of all sequences.
template <class T, class U>
__device__ HeadRows<T> head_rows(const AttentionArguments<U>& a, T* array, int head, int part, int parts) {
  const int width = a.heads * a.head_size, sequence = head / a.heads, within = head % a.heads * a.head_size;
  const long long position = static_cast<long long>(sequence) * a.positions;
  return {array + (position * parts + part) * width + within, parts * width};
}

}  // namespace lockstep::kernels
