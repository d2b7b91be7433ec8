// Softmax cross-entropy, one block per row. The first pass over a row finds its maximum and the sum of its exponentials
// at once (online softmax: Milakov and Gimelshein, arXiv 1805.02867), the second writes the gradient in place. If two
// rows fit a multiprocessor's shared memory, the row is first copied there, with all loads in flight at once, and
// memory is read only once; otherwise the second pass may or may not find it in a cache. A sharded vocabulary takes two
// kernels.
#include <tensor_cores.hpp>

#include "common/devices/cuda/kernels/column_sums.cuh"
#include "common/devices/cuda/kernels/faults.cuh"
#include "common/devices/cuda/kernels/operations.hpp"
#include "common/devices/cuda/kernels/reduce.cuh"

namespace lockstep::kernels {

namespace {

constexpr int kRowThreads = 512;
constexpr int kRowBlocks = 3;     // per multiprocessor: 42 registers per thread, which suffice
constexpr int kStagedBlocks = 2;  // likewise, with rows in shared memory
constexpr std::int32_t kIgnored = -1;

struct Softmax {
  float maximum;
  float sum;  // Σ exp(x[i] − maximum)
};

/// Softmax of the `count` elements at `row`, computed by the whole block.
template <class T>
__device__ inline Softmax softmax_of(const T* row, Index count, float* scratch) {
  const Packs packs(row, count);
  float maximum = negative_infinity(), sum = 0;
  for (Index p = threadIdx.x; p < packs.count(); p += blockDim.x) {
    const Pack<T> pack = load(row, packs.first(p), count, narrow<T>(negative_infinity()));
    float largest = maximum;
#pragma unroll
    for (int j = 0; j < kPack; ++j) largest = fmaxf(largest, widen(pack.at[j]));
    const float base = largest == negative_infinity() ? 0.0f : largest;  // −∞ − −∞ would be NaN
    sum *= exponential<T>(maximum - base);
    maximum = largest;
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum += exponential<T>(widen(pack.at[j]) - base);
  }
  const float of_row = block_max(maximum, scratch);
  if (maximum != negative_infinity()) sum *= expf(maximum - of_row);
  return {of_row, block_sum(sum, scratch)};
}

/// gradient[i] = factor · exp(row[i] − base), less `one` at i = right; 0 from `counted` on. gradient and row have the
/// same offset from a multiple of 16 bytes, or are the same.
template <class T>
__device__ inline void write_gradient(T* gradient, const T* row, Index width, Index counted, float base, float factor,
                                      Index right, float one) {
  const Packs packs(row, width);
  for (Index p = threadIdx.x; p < packs.count(); p += blockDim.x) {
    const Index i = packs.first(p);
    float values[kPack];
    load_floats(values, row, i, width);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      values[j] = i + j < counted ? factor * exponential<T>(values[j] - base) : 0.0f;
      if (i + j == right) values[j] -= one;
    }
    store_floats(gradient, i, width, values);
  }
}

__device__ inline float gradient_factor_of(float factor, const float* scale) {
  return scale ? factor * *scale : factor;
}

/// Copies the row to shared memory. A thread can use its own copies at once, and those of others after a barrier.
template <class T>
__device__ inline const T* stage(const T* row, Index count) {
  T* const copy = dynamic_shared<T>();
  for (Index i = static_cast<Index>(threadIdx.x) * kPack; i < count; i += static_cast<Index>(blockDim.x) * kPack)
    cp_async_16(copy + i, row + i);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  return copy;
}

template <bool kGradient, bool kStaged, class T>
__global__ void __launch_bounds__(kRowThreads, kStaged ? kStagedBlocks : kRowBlocks)
    cross_entropy_kernel(float* losses, T* logits, const std::int32_t* targets, Index vocabulary, float factor,
                         const float* gradient_scale, IndexCheck check) {
  __shared__ float scratch[kWarp];
  const Index row = blockIdx.x;
  const std::int32_t target = targets[row];
  logits += row * vocabulary;
  const bool counts = target != kIgnored && check(target, row);
  if (!counts) {
    if (kGradient) write_gradient<T>(logits, logits, vocabulary, 0, 0, 0, -1, 0);
    if (threadIdx.x == 0) losses[row] = 0;
    return;
  }
  const T* const values = kStaged ? stage(logits, vocabulary) : logits;
  const Softmax softmax = softmax_of(values, vocabulary, scratch);
  if (threadIdx.x == 0) losses[row] = logf(softmax.sum) + (softmax.maximum - widen(values[target]));
  if (kGradient) {
    if (!kStaged) __syncthreads();  // the target's logit has been read
    const float one = gradient_factor_of(factor, gradient_scale);
    write_gradient(logits, values, vocabulary, vocabulary, softmax.maximum, one / softmax.sum, target, one);
  }
}

/// True if rows of 16-bit logits can be staged for two blocks at once, so that one computes while the other loads.
bool stages(Array logits, Index vocabulary) {
  constexpr int kReserved = 1024 + 256;  // bytes of shared memory per block: reserved by the GPU, and `scratch`
  const Index bytes = 2 * vocabulary;
  int device = 0, most = 0;
  if (bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(logits.data) % 16 != 0) return false;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) != cudaSuccess)
    return false;
  return kStagedBlocks * (bytes + kReserved) <= most;
}

template <bool kGradient>
void cross_entropy_rows(const Queue& queue, const char* message, Array loss, Array logits, Array targets, float factor,
                        Array gradient_scale) {
  if (logits.size == 0) return;
  const Index rows = size_of(targets), vocabulary = size_of(logits) / rows;
  auto* losses = static_cast<float*>(queue.workspace.take(targets.size * sizeof(float)));
  with_type(logits.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto start = [&](auto kernel, std::size_t shared_bytes) {
      launch(kernel, dim3(static_cast<unsigned>(rows)), block_for(divide_up(vocabulary, kPack), kRowThreads),
             shared_bytes, queue.stream, losses, logits.as<T>(), targets.as<const std::int32_t>(), vocabulary, factor,
             gradient_scale.size != 0 ? gradient_scale.as<const float>() : nullptr,
             IndexCheck{queue.fault, message, vocabulary});
    };
    if constexpr (kGradient && sizeof(T) == 2) {
      if (stages(logits, vocabulary))
        return start(cross_entropy_kernel<true, true, T>, static_cast<std::size_t>(vocabulary) * sizeof(T));
    }
    start(cross_entropy_kernel<kGradient, false, T>, 0);
  });
  add_partials(queue, loss, losses, rows, factor);
}

// Shards of a vocabulary ----------------------------------------------------------------------------------------------

/// The shard's column for `token`, or −1.
__device__ inline Index column_of(std::int32_t token, Shard shard) {
  const Index column = token - shard.first;
  return token >= 0 && column >= 0 && column < shard.count ? column : -1;
}

__global__ void __launch_bounds__(kThreads)
    shard_tokens_kernel(std::int32_t* y, const std::int32_t* x, Index n, Shard shard) {
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += step)
    y[i] = static_cast<std::int32_t>(column_of(x[i], shard));
}

template <class T>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    statistics_kernel(float* statistics, const T* logits, const std::int32_t* targets, Index width, Shard shard) {
  __shared__ float scratch[kWarp];
  const Index row = blockIdx.x;
  logits += row * width;
  const Softmax softmax = softmax_of(logits, shard.count, scratch);
  if (threadIdx.x != 0) return;
  const Index right = column_of(targets[row], shard);
  statistics[2 * row] = shard.count == 0 ? negative_infinity() : softmax.maximum + logf(softmax.sum);
  statistics[2 * row + 1] = right >= 0 ? widen(logits[right]) : 0.0f;
}

/// One thread per row: computes the logarithm of the sum over all shards, and the loss.
__global__ void __launch_bounds__(kThreads)
    join_statistics_kernel(float* log_sums, float* losses, const float* statistics, const std::int32_t* targets,
                           Index rows, Index shards) {
  const Index row = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= rows) return;
  float maximum = negative_infinity(), right = 0, sum = 0;
  for (Index r = 0; r < shards; ++r) maximum = fmaxf(maximum, statistics[2 * (r * rows + row)]);
  for (Index r = 0; r < shards; ++r) {
    sum += expf(statistics[2 * (r * rows + row)] - maximum);
    right += statistics[2 * (r * rows + row) + 1];
  }
  const float log_sum = maximum + logf(sum);
  log_sums[row] = log_sum;
  losses[row] = targets[row] == kIgnored ? 0.0f : log_sum - right;
}

template <class T>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    shard_gradient_kernel(T* logits, const float* log_sums, const std::int32_t* targets, Index width, Shard shard,
                          float factor, const float* gradient_scale) {
  const Index row = blockIdx.x;
  const std::int32_t target = targets[row];
  const float one = gradient_factor_of(factor, gradient_scale);
  write_gradient<T>(logits + row * width, logits + row * width, width, target == kIgnored ? 0 : shard.count,
                    log_sums[row], one, column_of(target, shard), one);
}

}  // namespace

void cross_entropy(const Queue& queue, Array loss, Array logits, Array targets, float factor, Array gradient_scale) {
  cross_entropy_rows<true>(queue, "cross_entropy: target {} of row {} is neither −1 nor inside a vocabulary of {}",
                           loss, logits, targets, factor, gradient_scale);
}

void cross_entropy_loss(const Queue& queue, Array loss, Array logits, Array targets, float factor) {
  cross_entropy_rows<false>(queue,
                            "cross_entropy_loss: target {} of row {} is neither −1 nor inside a vocabulary of {}", loss,
                            logits, targets, factor, {});
}

void shard_tokens(const Queue& queue, Array y, Array x, Shard shard) {
  launch(shard_tokens_kernel, grid_for(size_of(x)), dim3(kThreads), 0, queue.stream, y.as<std::int32_t>(),
         x.as<const std::int32_t>(), size_of(x), shard);
}

void cross_entropy_statistics(const Queue& queue, Array statistics, Array logits, Array targets, Shard shard) {
  if (targets.size == 0) return;
  const Index rows = size_of(targets), width = size_of(logits) / rows;
  with_type(logits.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(statistics_kernel<T>, dim3(static_cast<unsigned>(rows)), block_for(divide_up(width, kPack), kRowThreads), 0,
           queue.stream, statistics.as<float>(), logits.as<const T>(), targets.as<const std::int32_t>(), width, shard);
  });
}

void cross_entropy_shard(const Queue& queue, Array loss, Array logits, Array statistics, Array targets, Shard shard,
                         float factor, Array gradient_scale) {
  if (targets.size == 0) return;
  const Index rows = size_of(targets), width = size_of(logits) / rows, shards = size_of(statistics) / (2 * rows);
  Cut cut(queue.workspace.take(2 * Cut::bytes<float>(targets.size)));
  auto* log_sums = cut.next<float>(targets.size);
  auto* losses = cut.next<float>(targets.size);
  launch(join_statistics_kernel, dim3(static_cast<unsigned>(divide_up(rows, kThreads))), dim3(kThreads), 0,
         queue.stream, log_sums, losses, statistics.as<const float>(), targets.as<const std::int32_t>(), rows, shards);
  add_partials(queue, loss, losses, rows, factor);
  if (logits.size == 0) return;
  with_type(logits.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(shard_gradient_kernel<T>, dim3(static_cast<unsigned>(rows)), block_for(divide_up(width, kPack), kRowThreads),
           0, queue.stream, logits.as<T>(), log_sums, targets.as<const std::int32_t>(), width, shard, factor,
           gradient_scale.size != 0 ? gradient_scale.as<const float>() : nullptr);
  });
}

}  // namespace lockstep::kernels
