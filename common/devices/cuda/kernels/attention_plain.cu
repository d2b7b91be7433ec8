// Causal attention by plain loops: any type, head size and alignment, sums in f32. Scores are recomputed whenever they
// are needed, once for the log-sum-exp and once for each 128 columns of a result; or probabilities are read, if the
// caller has stored them.
#include "common/devices/cuda/kernels/attention_launch.cuh"
#include "common/devices/cuda/kernels/attention_plain.cuh"

namespace lockstep::kernels {

namespace {

/// Head and 32 positions of a block; the last positions of a head come first.
struct Work {
  int head, first;
  __device__ explicit Work(int positions) {
    const int blocks = (positions + kSide - 1) / kSide;
    head = static_cast<int>(blockIdx.x) / blocks;
    first = (blocks - 1 - static_cast<int>(blockIdx.x) % blocks) * kSide;
  }
};

template <class T>
__device__ float* of_head(const AttentionArguments<T>& a, float* statistics, int head) {
  return statistics + static_cast<long long>(head) * a.positions;
}

template <class T>
__device__ T* stored_row(const AttentionArguments<T>& a, int head, int query) {
  return a.probabilities + (static_cast<long long>(head) * a.positions + query) * a.positions;
}

/// Source of probabilities for a block of queries: the log-sum-exp of its rows, or stored probabilities.
template <class T, bool Stored>
struct Softmax {
  const AttentionArguments<T>& a;
  TilePair& shared;
  Work work;
  HeadRows<const T> queries, keys;
  float log_sums[kRows];

  __device__ Softmax(const AttentionArguments<T>& arguments, TilePair& tiles, Work block)
      : a(arguments),
        shared(tiles),
        work(block),
        queries(head_rows(a, a.qkv, work.head, 0, 3)),
        keys(head_rows(a, a.qkv, work.head, 1, 3)) {}

  /// Computes log-sum-exps; each row of scores belongs to one warp.
  __device__ void find_log_sums() {
    const Place place;
    float maxima[kRows], sums[kRows];
    for (int r = 0; r < kRows; ++r) maxima[r] = negative_infinity(), sums[r] = 0.0f;
    for (int key = 0; key <= work.first; key += kSide) {
      float scores[kRows];
      multiply_rows(scores, shared, queries, work.first, keys, key, a.positions, a.head_size);
      for (int r = 0; r < kRows; ++r) {
        if (work.first + place.row(r) >= a.positions) break;  // the same for the whole warp
        const bool hidden = key + place.x > work.first + place.row(r);
        const float score = hidden ? negative_infinity() : scores[r] * a.scale;
        const float maximum = fmaxf(maxima[r], warp_reduce(score, Maximum()));
        sums[r] = sums[r] * expf(maxima[r] - maximum) + warp_reduce(expf(score - maximum), Plus());
        maxima[r] = maximum;
      }
    }
    for (int r = 0; r < kRows; ++r) log_sums[r] = maxima[r] + logf(sums[r]);
  }

  /// Probabilities of this thread's queries for key place.x of the 32 from `key`; 0 for keys after their query.
  __device__ void find_probabilities(float (&weights)[kRows], int key) {
    const Place place;
    if (!Stored) multiply_rows(weights, shared, queries, work.first, keys, key, a.positions, a.head_size);
    for (int r = 0; r < kRows; ++r) {
      const int query = work.first + place.row(r);
      const bool hidden = key + place.x > query || query >= a.positions;
      if (hidden)
        weights[r] = 0.0f;
      else if (Stored)
        weights[r] = widen(stored_row(a, work.head, query)[key + place.x]);
      else
        weights[r] = expf(weights[r] * a.scale - log_sums[r]);
    }
  }
};

/// Computes y and, if probabilities are not stored, log_sums.
template <class T, bool Stored>
__global__ void plain_forward_kernel(AttentionArguments<T> a) {
  __shared__ TilePair shared;
  const Place place;
  const Work work(a.positions);
  const auto values = head_rows(a, a.qkv, work.head, 2, 3);
  Softmax<T, Stored> softmax(a, shared, work);
  if (!Stored) {
    softmax.find_log_sums();
    for (int r = 0; r < kRows; ++r)
      if (place.x == 0 && work.first + place.row(r) < a.positions)
        of_head(a, a.log_sums, work.head)[work.first + place.row(r)] = softmax.log_sums[r];
  }
  for (int column = 0; column < a.head_size; column += kParts * kSide) {
    Sums output;
    clear(output);
    for (int key = 0; key <= work.first; key += kSide) {
      float weights[kRows];
      softmax.find_probabilities(weights, key);
      add_weighted(output, shared, weights, values, key, column, a.positions, a.head_size);
    }
    store(head_rows(a, a.y, work.head, 0, 1), output, 1.0f, work.first, column, a.positions, a.head_size);
  }
}

/// Computes all probabilities, with zeros for future keys.
template <class T>
__global__ void plain_probabilities_kernel(AttentionArguments<T> a) {
  __shared__ TilePair shared;
  const Place place;
  const Work work(a.positions);
  Softmax<T, false> softmax(a, shared, work);
  softmax.find_log_sums();
  for (int key = 0; key < a.positions; key += kSide) {
    float weights[kRows] = {};
    if (key <= work.first) softmax.find_probabilities(weights, key);
    for (int r = 0; r < kRows; ++r) {
      const int query = work.first + place.row(r);
      if (query < a.positions && key + place.x < a.positions)
        stored_row(a, work.head, query)[key + place.x] = narrow<T>(weights[r]);
    }
  }
}

/// row_dots = Σ dy·y for each row; one warp per row.
template <class T>
__global__ void plain_row_dots_kernel(AttentionArguments<T> a) {
  const Place place;
  const Work work(a.positions);
  const auto dy = head_rows(a, a.dy, work.head, 0, 1), y = head_rows(a, static_cast<const T*>(a.y), work.head, 0, 1);
  for (int r = 0; r < kRows; ++r) {
    const int position = work.first + place.row(r);
    if (position >= a.positions) continue;
    float sum = 0.0f;
    for (int i = place.x; i < a.head_size; i += kSide)
      sum = fmaf(widen(dy.row(position)[i]), widen(y.row(position)[i]), sum);
    sum = warp_reduce(sum, Plus());
    if (place.x == 0) of_head(a, a.row_dots, work.head)[position] = sum;
  }
}

/// Computes dq for 32 queries.
template <class T, bool Stored>
__global__ void plain_query_gradient_kernel(AttentionArguments<T> a) {
  __shared__ TilePair shared;
  const Place place;
  const Work work(a.positions);
  const auto keys = head_rows(a, a.qkv, work.head, 1, 3), values = head_rows(a, a.qkv, work.head, 2, 3);
  const auto gradients = head_rows(a, a.dy, work.head, 0, 1);
  Softmax<T, Stored> softmax(a, shared, work);
  float dots[kRows];
  for (int r = 0; r < kRows; ++r) {
    const int query = min(work.first + place.row(r), a.positions - 1);
    if (!Stored) softmax.log_sums[r] = of_head(a, a.log_sums, work.head)[query];
    dots[r] = of_head(a, a.row_dots, work.head)[query];
  }
  for (int column = 0; column < a.head_size; column += kParts * kSide) {
    Sums dq;
    clear(dq);
    for (int key = 0; key <= work.first; key += kSide) {
      float weights[kRows], slopes[kRows];
      softmax.find_probabilities(weights, key);
      multiply_rows(slopes, shared, gradients, work.first, values, key, a.positions, a.head_size);
      for (int r = 0; r < kRows; ++r) slopes[r] = weights[r] * (slopes[r] - dots[r]);
      add_weighted(dq, shared, slopes, keys, key, column, a.positions, a.head_size);
    }
    store(head_rows(a, a.dqkv, work.head, 0, 3), dq, a.scale, work.first, column, a.positions, a.head_size);
  }
}

/// Computes dk and dv for 32 keys: rows of a tile are keys, columns queries.
template <class T, bool Stored>
__global__ void plain_key_gradient_kernel(AttentionArguments<T> a) {
  __shared__ TilePair shared;
  const Place place;
  const Work work(a.positions);
  const auto queries = head_rows(a, a.qkv, work.head, 0, 3), keys = head_rows(a, a.qkv, work.head, 1, 3);
  const auto values = head_rows(a, a.qkv, work.head, 2, 3), gradients = head_rows(a, a.dy, work.head, 0, 1);
  for (int column = 0; column < a.head_size; column += kParts * kSide) {
    Sums dk, dv;
    clear(dk);
    clear(dv);
    for (int tile = work.first; tile < a.positions; tile += kSide) {
      float weights[kRows], slopes[kRows];
      if (!Stored) multiply_rows(weights, shared, keys, work.first, queries, tile, a.positions, a.head_size);
      multiply_rows(slopes, shared, values, work.first, gradients, tile, a.positions, a.head_size);
      const int query = tile + place.x;
      const bool outside = query >= a.positions;
      const float log_sum = outside || Stored ? 0.0f : of_head(a, a.log_sums, work.head)[query];
      const float dot = outside ? 0.0f : of_head(a, a.row_dots, work.head)[query];
      for (int r = 0; r < kRows; ++r) {
        const int key = work.first + place.row(r);
        if (outside || key > query)
          weights[r] = 0.0f;
        else
          weights[r] = Stored ? widen(stored_row(a, work.head, query)[key]) : expf(weights[r] * a.scale - log_sum);
        slopes[r] = weights[r] * (slopes[r] - dot);
      }
      add_weighted(dv, shared, weights, gradients, tile, column, a.positions, a.head_size);
      add_weighted(dk, shared, slopes, queries, tile, column, a.positions, a.head_size);
    }
    store(head_rows(a, a.dqkv, work.head, 1, 3), dk, a.scale, work.first, column, a.positions, a.head_size);
    store(head_rows(a, a.dqkv, work.head, 2, 3), dv, 1.0f, work.first, column, a.positions, a.head_size);
  }
}

constexpr int kBlock = kSide * kLanes;

template <class T>
dim3 grid_of(const AttentionArguments<T>& a, std::size_t heads) {
  return attention_grid(heads, a.positions, kSide);
}

template <class T, bool Stored>
void launch_backward(const AttentionArguments<T>& a, dim3 grid, cudaStream_t stream) {
  launch(plain_row_dots_kernel<T>, grid, kBlock, 0, stream, a);
  launch(plain_query_gradient_kernel<T, Stored>, grid, kBlock, 0, stream, a);
  launch(plain_key_gradient_kernel<T, Stored>, grid, kBlock, 0, stream, a);
}

}  // namespace

template <class T>
void attention_forward_plain(const AttentionArguments<T>& a, std::size_t heads, cudaStream_t stream) {
  if (a.probabilities)
    launch(plain_forward_kernel<T, true>, grid_of(a, heads), kBlock, 0, stream, a);
  else
    launch(plain_forward_kernel<T, false>, grid_of(a, heads), kBlock, 0, stream, a);
}

template <class T>
void attention_backward_plain(const AttentionArguments<T>& a, std::size_t heads, cudaStream_t stream) {
  if (a.probabilities)
    launch_backward<T, true>(a, grid_of(a, heads), stream);
  else
    launch_backward<T, false>(a, grid_of(a, heads), stream);
}

template <class T>
void attention_probabilities_plain(const AttentionArguments<T>& a, std::size_t heads, cudaStream_t stream) {
  launch(plain_probabilities_kernel<T>, grid_of(a, heads), kBlock, 0, stream, a);
}

#define LOCKSTEP_PLAIN_ATTENTION(T)                                                                \
  template void attention_forward_plain(const AttentionArguments<T>&, std::size_t, cudaStream_t);  \
  template void attention_backward_plain(const AttentionArguments<T>&, std::size_t, cudaStream_t); \
  template void attention_probabilities_plain(const AttentionArguments<T>&, std::size_t, cudaStream_t)
LOCKSTEP_PLAIN_ATTENTION(float);
LOCKSTEP_PLAIN_ATTENTION(__nv_bfloat16);
LOCKSTEP_PLAIN_ATTENTION(__half);

}  // namespace lockstep::kernels
