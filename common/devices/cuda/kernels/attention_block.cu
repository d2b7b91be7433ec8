// Attention of a block of queries over a block of keys, merged into previous results: plain loops for any type, head
// size and alignment, sums in f32. A thread block is one warp and handles one query or, for the gradient of keys, one
// key. Its lanes take 32 of the other side at a time, then share the columns. Columns are handled 128 at a time, and
// the scores are recomputed for each such group.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "common/devices/cuda/kernels/attention_block.hpp"
#include "common/devices/cuda/kernels/launch.cuh"
#include "common/devices/cuda/kernels/reduce.cuh"

namespace lockstep::kernels {

namespace {

constexpr int kParts = 4;  // columns per lane at a time: lane, lane + 32, …

template <class T>
struct BlockArguments {
  T *y, *dq, *dkv;
  const T *q, *kv, *dy;
  float* log_sums;
  int queries, keys, heads, group, head_size;  // `group` heads share each key-value head
  long long ahead;                             // first_query − first_key: query t sees keys up to ahead + t
  float scale;                                 // 1/√d

  __device__ int lane() const { return static_cast<int>(threadIdx.x); }
  /// First element of a head's row in an array of B × queries × h × d; `head` counts the heads of all sequences.
  template <class U>
  __device__ U* row(U* array, int head, int t) const {
    return array + ((static_cast<long long>(head / heads) * queries + t) * heads + head % heads) * head_size;
  }
  /// The same for a key-value head, in an array of B × keys × 2 × h/group × d.
  template <class U>
  __device__ U* shared_row(U* array, int shared, int u, int part) const {
    const int count = heads / group;
    const long long at = (static_cast<long long>(shared / count) * keys + u) * 2 + part;
    return array + (at * count + shared % count) * head_size;
  }
  __device__ const T* query(int head, int t) const { return row(q, head, t); }
  __device__ const T* key(int head, int u) const { return shared_row(kv, head / group, u, 0); }
  __device__ const T* value(int head, int u) const { return shared_row(kv, head / group, u, 1); }
  __device__ float& log_sum(int head, int t) const { return log_sums[static_cast<long long>(head) * queries + t]; }
  /// Number of keys that query t sees.
  __device__ int seen(int t) const {
    const long long n = ahead + t + 1;
    return n <= 0 ? 0 : n < keys ? static_cast<int>(n) : keys;
  }
  template <class A, class B>
  __device__ float dot(const A* a, const B* b) const {
    float sum = 0.0f;
    for (int i = 0; i < head_size; ++i) sum = fmaf(widen(a[i]), widen(b[i]), sum);
    return sum;
  }
  /// sums[c] += Σ_j weights[j] · column `column` + 32c + lane of row(j), for j < n.
  template <class Row>
  __device__ void add_rows(float (&sums)[kParts], const float* weights, int n, int column, const Row& row_of) const {
    for (int j = 0; j < n; ++j) {
      const T* from = row_of(j);
      for (int c = 0; c < kParts; ++c) {
        const int i = column + c * kWarp + lane();
        if (i < head_size) sums[c] = fmaf(weights[j], widen(from[i]), sums[c]);
      }
    }
  }
  /// to[i] = keep · to[i] + factor · sums, for this lane's columns.
  __device__ void merge(T* to, const float (&sums)[kParts], int column, float keep, float factor) const {
    for (int c = 0; c < kParts; ++c) {
      const int i = column + c * kWarp + lane();
      if (i < head_size) to[i] = narrow<T>(keep * widen(to[i]) + factor * sums[c]);
    }
  }
};

/// Log-sum-exp of query t over this block's keys, of which it sees n > 0.
template <class T>
__device__ float block_log_sum(const BlockArguments<T>& a, int head, int t, int n) {
  float maximum = negative_infinity(), sum = 0.0f;
  for (int u = a.lane(); u < n; u += kWarp) {
    const float score = a.dot(a.query(head, t), a.key(head, u)) * a.scale, most = fmaxf(maximum, score);
    sum = sum * expf(maximum - most) + expf(score - most);
    maximum = most;
  }
  const float most = warp_reduce(maximum, Maximum());
  return most + logf(warp_reduce(sum * expf(maximum - most), Plus()));
}

template <class T>
__global__ void block_forward_kernel(BlockArguments<T> a) {
  __shared__ float weights[kWarp];
  const int head = static_cast<int>(blockIdx.x) / a.queries, t = static_cast<int>(blockIdx.x) % a.queries;
  const int n = a.seen(t);
  if (n == 0) return;
  const float before = a.log_sum(head, t), here = block_log_sum(a, head, t, n), most = fmaxf(before, here);
  const float both = most + logf(expf(before - most) + expf(here - most));
  for (int column = 0; column < a.head_size; column += kParts * kWarp) {
    float sums[kParts] = {};
    for (int first = 0; first < n; first += kWarp) {
      const int u = first + a.lane();
      weights[a.lane()] = u < n ? expf(a.dot(a.query(head, t), a.key(head, u)) * a.scale - both) : 0.0f;
      __syncthreads();
      a.add_rows(sums, weights, min(kWarp, n - first), column, [&](int j) { return a.value(head, first + j); });
      __syncthreads();
    }
    a.merge(a.row(a.y, head, t), sums, column, expf(before - both), 1.0f);
  }
  if (a.lane() == 0) a.log_sum(head, t) = both;
}

/// Probability of query t and key u, and gradient of their score. `dot` is Σ dy·y of the query.
struct PairGradient {
  float probability, slope;
};
template <class T>
__device__ PairGradient pair_gradient(const BlockArguments<T>& a, int head, int t, int u, float dot) {
  const T* dy = a.row(a.dy, head, t);
  const float p = expf(a.dot(a.query(head, t), a.key(head, u)) * a.scale - a.log_sum(head, t));
  return {p, p * (a.dot(dy, a.value(head, u)) - dot)};
}
template <class T>
__device__ float row_dot(const BlockArguments<T>& a, int head, int t) {
  return a.dot(a.row(a.dy, head, t), a.row(a.y, head, t));
}

template <class T>
__global__ void block_query_gradient_kernel(BlockArguments<T> a) {
  __shared__ float slopes[kWarp];
  const int head = static_cast<int>(blockIdx.x) / a.queries, t = static_cast<int>(blockIdx.x) % a.queries;
  const int n = a.seen(t);
  if (n == 0) return;
  const float dot = row_dot(a, head, t);
  for (int column = 0; column < a.head_size; column += kParts * kWarp) {
    float sums[kParts] = {};
    for (int first = 0; first < n; first += kWarp) {
      const int u = first + a.lane();
      slopes[a.lane()] = u < n ? pair_gradient(a, head, t, u, dot).slope : 0.0f;
      __syncthreads();
      a.add_rows(sums, slopes, min(kWarp, n - first), column, [&](int j) { return a.key(head, first + j); });
      __syncthreads();
    }
    a.merge(a.row(a.dq, head, t), sums, column, 1.0f, a.scale);
  }
}

template <class T>
__global__ void block_key_gradient_kernel(BlockArguments<T> a) {
  __shared__ float slopes[kWarp], probabilities[kWarp];
  const int shared = static_cast<int>(blockIdx.x) / a.keys, u = static_cast<int>(blockIdx.x) % a.keys;
  const long long sees = u - a.ahead;  // first query that sees it
  if (sees >= a.queries) return;
  const int begin = sees > 0 ? static_cast<int>(sees) : 0;
  for (int column = 0; column < a.head_size; column += kParts * kWarp) {
    float dk[kParts] = {}, dv[kParts] = {};
    for (int head = shared * a.group; head < (shared + 1) * a.group; ++head)
      for (int first = begin; first < a.queries; first += kWarp) {
        const int t = first + a.lane(), n = min(kWarp, a.queries - first);
        PairGradient pair{};
        if (t < a.queries) pair = pair_gradient(a, head, t, u, row_dot(a, head, t));
        slopes[a.lane()] = pair.slope;
        probabilities[a.lane()] = pair.probability;
        __syncthreads();
        a.add_rows(dk, slopes, n, column, [&](int j) { return a.query(head, first + j); });
        a.add_rows(dv, probabilities, n, column, [&](int j) { return a.row(a.dy, head, first + j); });
        __syncthreads();
      }
    a.merge(a.shared_row(a.dkv, shared, u, 0), dk, column, 1.0f, a.scale);
    a.merge(a.shared_row(a.dkv, shared, u, 1), dv, column, 1.0f, 1.0f);
  }
}

template <class T>
BlockArguments<T> arguments_of(const BlockArrays& x, const AttentionBlockSize& size) {
  BlockArguments<T> a{};
  a.y = x.y.as<T>();
  a.q = x.q.as<const T>();
  a.kv = x.kv.as<const T>();
  a.dy = x.dy.as<const T>();
  a.dq = x.dq.as<T>();
  a.dkv = x.dkv.as<T>();
  a.log_sums = x.log_sums.as<float>();
  a.queries = static_cast<int>(size.queries);
  a.keys = static_cast<int>(size.keys);
  a.heads = static_cast<int>(size.heads);
  a.group = size.kv_heads == 0 ? 1 : static_cast<int>(size.heads / size.kv_heads);
  a.head_size = static_cast<int>(size.head_size);
  a.ahead = static_cast<long long>(size.first_query) - static_cast<long long>(size.first_key);
  a.scale = 1.0f / std::sqrt(static_cast<float>(size.head_size));
  return a;
}

template <class F>
void with_type(const BlockArrays& arrays, const AttentionBlockSize& size, F f) {
  switch (arrays.q.dtype) {
    case DType::bf16: return f(arguments_of<__nv_bfloat16>(arrays, size));
    case DType::f16: return f(arguments_of<__half>(arrays, size));
    default: return f(arguments_of<float>(arrays, size));
  }
}

dim3 one_warp_each(std::size_t rows, std::size_t heads, const AttentionBlockSize& size) {
  return dim3(static_cast<unsigned>(rows * size.batch * heads));
}

template <class T>
void forward(const BlockArguments<T>& a, const AttentionBlockSize& size, cudaStream_t stream) {
  launch(block_forward_kernel<T>, one_warp_each(size.queries, size.heads, size), kWarp, 0, stream, a);
}

template <class T>
void backward(const BlockArguments<T>& a, const AttentionBlockSize& size, cudaStream_t stream) {
  launch(block_query_gradient_kernel<T>, one_warp_each(size.queries, size.heads, size), kWarp, 0, stream, a);
  launch(block_key_gradient_kernel<T>, one_warp_each(size.keys, size.kv_heads, size), kWarp, 0, stream, a);
}

}  // namespace

void attention_block(const Queue& queue, const BlockArrays& arrays, const AttentionBlockSize& size) {
  with_type(arrays, size, [&](const auto& a) { forward(a, size, queue.stream); });
}

void attention_block_backward(const Queue& queue, const BlockArrays& arrays, const AttentionBlockSize& size) {
  with_type(arrays, size, [&](const auto& a) { backward(a, size, queue.stream); });
}

}  // namespace lockstep::kernels
