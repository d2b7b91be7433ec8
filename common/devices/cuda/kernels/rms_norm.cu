// RMSNorm (arXiv 1910.07467), like layer_norm.cu without the mean. Forward: one block per row. Backward: a block takes
// several rows one after another, and its threads, which keep their columns, sum dweight over them.
#include "common/devices/cuda/kernels/column_sums.cuh"
#include "common/devices/cuda/kernels/operations.hpp"
#include "common/devices/cuda/kernels/rows.cuh"

namespace lockstep::kernels {

namespace {

constexpr float kEpsilon = 1e-5f;
constexpr int kRowThreads = 512, kRowKept = 2;  // rows of 8,192 elements are read once
constexpr Index kFewestRows = 4, kBlocks = 4 * kProcessors;

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    rms_norm_kernel(T* y, float* statistics, const T* x, Array weight, Index columns) {
  __shared__ float scratch[kWarp];
  const Index row = blockIdx.x;
  x += row * columns;
  y += row * columns;
  const Packs packs(x, columns);
  const auto kept = keep<kRowKept>(x, packs);
  float squares = 0;
  for_row(kept, x, packs, [&](const Pack<T>& pack, Index) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) squares += widen(pack.at[j]) * widen(pack.at[j]);  // 0 outside the row
  });
  const float mean = block_sum(squares, scratch) / static_cast<float>(columns);
  const float reciprocal = 1.0f / sqrtf(mean + kEpsilon);
  for_row(kept, x, packs, [&](const Pack<T>& pack, Index i) {
    float w[kPack];
    load_floats(w, weight, i, columns);
#pragma unroll
    for (int j = 0; j < kPack; ++j) w[j] *= widen(pack.at[j]) * reciprocal;
    store_floats(y, i, columns, w);
  });
  if (threadIdx.x == 0) statistics[row] = reciprocal;
}

/// partials: each block's sums for dweight. dx may be dy or x, since a thread writes only what it alone reads.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    rms_norm_backward_kernel(T* dx, float* partials, const T* dy, const T* x, Array weight, const float* statistics,
                             Index rows, Index columns, Index rows_of_block, bool accumulate) {
  __shared__ float scratch[kWarp];
  const Index first = blockIdx.x * rows_of_block, last = min(rows, first + rows_of_block);
  const Index packs = divide_up(columns, kPack);
  float* dweight = partials + blockIdx.x * columns;
  for (Index n = first; n < last; ++n) {
    const T* x_row = x + n * columns;
    const T* dy_row = dy + n * columns;
    const float reciprocal = statistics[n];
    float sum = 0;
    for (Index p = threadIdx.x; p < packs; p += blockDim.x) {
      float norm[kPack], gradient[kPack], w[kPack], total[kPack] = {};
      load_floats(norm, x_row, p * kPack, columns);
      load_floats(gradient, dy_row, p * kPack, columns);
      load_floats(w, weight, p * kPack, columns);
      if (n > first) load_floats(total, dweight, p * kPack, columns);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        norm[j] *= reciprocal;
        sum += gradient[j] * w[j] * norm[j];
        total[j] += gradient[j] * norm[j];
      }
      store_floats(dweight, p * kPack, columns, total);
    }
    const float mean = block_sum(sum, scratch) / static_cast<float>(columns);
    for (Index p = threadIdx.x; p < packs; p += blockDim.x) {
      float norm[kPack], gradient[kPack], w[kPack], out[kPack] = {};
      load_floats(norm, x_row, p * kPack, columns);
      load_floats(gradient, dy_row, p * kPack, columns);
      load_floats(w, weight, p * kPack, columns);
      if (accumulate) load_floats(out, dx + n * columns, p * kPack, columns);
#pragma unroll
      for (int j = 0; j < kPack; ++j) out[j] += reciprocal * (gradient[j] * w[j] - norm[j] * reciprocal * mean);
      store_floats(dx + n * columns, p * kPack, columns, out);
    }
  }
}

}  // namespace

void rms_norm(const Queue& queue, Array y, Array statistics, Array x, Array weight) {
  if (x.size == 0) return;
  const Index columns = size_of(weight), rows = size_of(x) / columns;
  const dim3 block = block_for(divide_up(columns, kPack), kRowThreads);
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(rms_norm_kernel<T>, dim3(static_cast<unsigned>(rows)), block, 0, queue.stream, y.as<T>(),
           statistics.as<float>(), x.as<const T>(), weight, columns);
  });
}

void rms_norm_backward(const Queue& queue, Array dx, Array dweight, Array dy, Array x, Array weight, Array statistics,
                       bool accumulate) {
  if (x.size == 0) return;
  const Index columns = size_of(weight), rows = size_of(x) / columns;
  const dim3 block = block_for(divide_up(columns, kPack), kRowThreads);
  const Index rows_of_block = max(divide_up(rows, kBlocks), min(rows, kFewestRows));
  const Index blocks = divide_up(rows, rows_of_block);
  auto* partials =
      static_cast<float*>(queue.workspace.take(static_cast<std::size_t>(blocks * columns) * sizeof(float)));
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(rms_norm_backward_kernel<T>, dim3(static_cast<unsigned>(blocks)), block, 0, queue.stream, dx.as<T>(),
           partials, dy.as<const T>(), x.as<const T>(), weight, statistics.as<const float>(), rows, columns,
           rows_of_block, accumulate);
  });
  add_columns(queue, dweight, {}, partials, blocks);
}

}  // namespace lockstep::kernels
