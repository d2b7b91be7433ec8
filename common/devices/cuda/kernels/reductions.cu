// Sums over a slice and over the rows of a matrix, and operations based on them. The order of summation depends only on
// sizes: each block stores its sum, and a second kernel adds these in order, in double.
#include "common/devices/cuda/kernels/column_sums.cuh"
#include "common/devices/cuda/kernels/operations.hpp"
#include "common/devices/cuda/kernels/reduce.cuh"

namespace lockstep::kernels {

namespace {

constexpr int kChunksAtOnce = 16, kSumThreads = 1024;

struct Identity {
  __device__ float operator()(float x) const { return x; }
};
struct Square {
  __device__ float operator()(float x) const { return x * x; }
};

/// partials[block] = the sum of op(x[i]) over the block's packs.
template <class Op, class T, int N>
__global__ void __launch_bounds__(kThreads) sum_kernel(Op op, float* partials, const T* x, PacksOf<N> packs) {
  __shared__ float scratch[kWarp];
  float sum = 0;
  for_packs(packs, [&](Index i) {
    const Pack<T, N> pack = load<N>(x, i, packs.n);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += op(widen(pack.at[j]));
  });
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

/// Raises the flag for any infinity or NaN, whose exponent is all ones. All writers write the same value.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) find_overflow_kernel(float* flag, const T* x, PacksOf<N> packs) {
  bool found = false;
  for_packs(packs, [&](Index i) {
    const Pack<T, N> pack = load<N>(x, i, packs.n);
#pragma unroll
    for (int j = 0; j < N; ++j) found |= (__float_as_uint(widen(pack.at[j])) & 0x7f800000u) == 0x7f800000u;
  });
  if (__any_sync(kWholeWarp, found) != 0 && threadIdx.x % kWarp == 0) *flag = 1.0f;
}

__global__ void clip_factor_kernel(float* factor, const float* sum_of_squares, float max_norm) {
  const float ratio = max_norm / (sqrtf(*sum_of_squares) + 1e-6f);
  *factor = ratio > 1.0f ? 1.0f : ratio;  // NaN stays NaN
}

__global__ void at_least_kernel(float* flag, const float* x, float threshold) { *flag = *x >= threshold ? 1.0f : 0.0f; }

template <class Op>
void add_sum_of(const Queue& queue, Op op, Array sum, Array x) {
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int N = kPackOf<T>;
    const PacksOf<N> packs(x.as<T>(), size_of(x));
    const dim3 grid = grid_for(packs.count());
    if (grid.x == 0) return;
    auto* partials = static_cast<float*>(queue.workspace.take(grid.x * sizeof(float)));
    launch(sum_kernel<Op, T, N>, grid, dim3(kThreads), 0, queue.stream, op, partials, x.as<const T>(), packs);
    add_partials(queue, sum, partials, static_cast<Index>(grid.x), 1.0f);
  });
}

/// One pack of columns per lane: each warp sums its rows of the block's chunk, then the warps' sums are added in order.
template <class T>
__global__ void __launch_bounds__(kThreads)
    column_sums_kernel(float* partials, const T* x, Index rows, Index columns, Index rows_of_chunk) {
  constexpr int kWarps = kThreads / kWarp, kColumns = kWarp * kPack;
  __shared__ float sums[kWarps][kColumns];
  const Index first = blockIdx.y * rows_of_chunk, last = min(rows, first + rows_of_chunk);
  const Index column = blockIdx.x * static_cast<Index>(kColumns) + threadIdx.x * kPack;
  float sum[kPack] = {};
  if (column < columns) {
#pragma unroll 4
    for (Index row = first + threadIdx.y; row < last; row += kWarps) {
      const Pack<T> pack = load(x + row * columns, column, columns);
#pragma unroll
      for (int j = 0; j < kPack; ++j) sum[j] += widen(pack.at[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kPack; ++j) sums[threadIdx.y][threadIdx.x * kPack + j] = sum[j];
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.y * kWarp + threadIdx.x);
  const Index out = blockIdx.x * static_cast<Index>(kColumns) + mine;
  if (out >= columns) return;
  float total = 0;
  for (int w = 0; w < kWarps; ++w) total += sums[w][mine];
  partials[blockIdx.y * columns + out] = total;
}

__global__ void __launch_bounds__(kSumThreads)
    add_partials_kernel(float* sum, const float* partials, Index count, float factor) {
  __shared__ double sums[kSumThreads];
  double total = 0;
#pragma unroll 4
  for (Index i = threadIdx.x; i < count; i += kSumThreads) total += partials[i];
  sums[threadIdx.x] = total;
  __syncthreads();
  for (int half = kSumThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *sum = static_cast<float>(*sum + factor * sums[0]);
}

/// One column per lane: each warp adds every 16th chunk, then the warps' sums are added in order.
__global__ void __launch_bounds__(kWarp* kChunksAtOnce)
    add_columns_kernel(Array left, Array right, const float* partials, Index chunks, Index columns) {
  __shared__ double sums[kChunksAtOnce][kWarp];
  const Index column = static_cast<Index>(blockIdx.x) * kWarp + threadIdx.x;
  double total = 0;
  if (column < columns) {
#pragma unroll 4
    for (Index chunk = threadIdx.y; chunk < chunks; chunk += kChunksAtOnce) total += partials[chunk * columns + column];
  }
  sums[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int w = 1; w < kChunksAtOnce; ++w) total += sums[w][threadIdx.x];
  const bool is_left = column < static_cast<Index>(left.size);
  const Array target{is_left ? left.data : right.data, 0, is_left ? left.dtype : right.dtype};
  const Index i = is_left ? column : column - static_cast<Index>(left.size);
  store_float(target, i, static_cast<float>(load_float(target, i) + total));
}

}  // namespace

void add_partials(const Queue& queue, Array sum, const float* partials, Index count, float factor) {
  launch(add_partials_kernel, dim3(1), dim3(kSumThreads), 0, queue.stream, sum.as<float>(), partials, count, factor);
}

void add_columns(const Queue& queue, Array left, Array right, const float* partials, Index chunks) {
  const Index columns = size_of(left) + size_of(right);
  launch(add_columns_kernel, dim3(static_cast<unsigned>(divide_up(columns, kWarp))), dim3(kWarp, kChunksAtOnce), 0,
         queue.stream, left, right, partials, chunks, columns);
}

void add_squares(const Queue& queue, Array sum, Array x) { add_sum_of(queue, Square(), sum, x); }
void add_sum(const Queue& queue, Array sum, Array x) { add_sum_of(queue, Identity(), sum, x); }

void clip_factor(const Queue& queue, Array factor, Array sum_of_squares, float max_norm) {
  launch(clip_factor_kernel, dim3(1), dim3(1), 0, queue.stream, factor.as<float>(), sum_of_squares.as<const float>(),
         max_norm);
}

void at_least(const Queue& queue, Array flag, Array x, float threshold) {
  launch(at_least_kernel, dim3(1), dim3(1), 0, queue.stream, flag.as<float>(), x.as<const float>(), threshold);
}

void find_overflow(const Queue& queue, Array flag, Array x) {
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int N = kPackOf<T>;
    const PacksOf<N> packs(x.as<T>(), size_of(x));
    launch(find_overflow_kernel<T, N>, grid_for(packs.count()), dim3(kThreads), 0, queue.stream, flag.as<float>(),
           x.as<const T>(), packs);
  });
}

void add_rows(const Queue& queue, Array sums, Array x) {
  const Index columns = size_of(sums);
  if (columns == 0 || x.size == 0) return;
  const Index rows = size_of(x) / columns, tiles = divide_up(columns, kWarp * kPack);
  // Four blocks per multiprocessor, but at least 16 rows per block.
  const Index chunks = max(Index{1}, min(divide_up(4 * kProcessors, tiles), divide_up(rows, 16)));
  const Index rows_of_chunk = divide_up(rows, chunks);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(divide_up(rows, rows_of_chunk)));
  auto* partials =
      static_cast<float*>(queue.workspace.take(grid.y * static_cast<std::size_t>(columns) * sizeof(float)));
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(column_sums_kernel<T>, grid, dim3(kWarp, kThreads / kWarp), 0, queue.stream, partials, x.as<const T>(), rows,
           columns, rows_of_chunk);
  });
  add_columns(queue, sums, {}, partials, static_cast<Index>(grid.y));
}

}  // namespace lockstep::kernels
