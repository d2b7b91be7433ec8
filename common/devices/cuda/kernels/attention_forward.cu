// Causal attention, forward, on tensor cores (FlashAttention-2, arXiv 2307.08691). A block owns up to 128 queries of
// one head, streams 64 keys and values at a time, and keeps the softmax as a running maximum and sum.
//
// On sm_90 (ptxas, heads of 64): 224 registers, no spills, 54 KiB of shared memory, so 2 blocks or 8 warps per
// multiprocessor. A warp's 32 × 64 scores take 128 products, 205 cycles at the 63 % of peak that mma.sync reaches there
// (arXiv 2402.13499), next to 160 of ldmatrix and 128 of exponentials. Tensor cores are the limit, as long as the warps
// take turns.
#include "common/devices/cuda/kernels/attention_launch.cuh"
#include "common/devices/cuda/kernels/attention_tiles.cuh"

namespace lockstep::kernels {

namespace {

constexpr float kHidden = -INFINITY;

/// For each row of a warp's products: the maximum score so far, and this lane's part of the sum of exponentials.
template <int M>
struct RunningSoftmax {
  float maximum[M][2];
  float sum[M][2];
};

/// Sets scores of keys after their query to −∞. `query` and `key` are those of the product's first row and column.
template <int M, int N>
__device__ void hide_future(float (&scores)[M][N][4], int query, int key) {
  if (key + 8 * N - 1 <= query) return;
  for_elements(scores, [&](float& score, int row, int column) {
    if (key + column > query + row) score = kHidden;
  });
}

/// Replaces scores by exp(factor'·(score − maximum)), with factor' = factor·ln 2, and rescales sums made with a smaller
/// maximum. The first keys of a row are never all masked, so its maximum is finite.
template <int M, int N, int P>
__device__ void add_to_softmax(RunningSoftmax<M>& state, float (&scores)[M][N][4], float (&output)[M][P][4],
                               float factor) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = state.maximum[i][half];
#pragma unroll
      for (int j = 0; j < N; ++j) maximum = fmaxf(maximum, fmaxf(scores[i][j][2 * half], scores[i][j][2 * half + 1]));
      maximum = row_maximum(maximum);
      const float offset = -maximum * factor;
      const float shrink = exp2_fast(fmaf(state.maximum[i][half], factor, offset));
      state.maximum[i][half] = maximum;
      float sum = state.sum[i][half] * shrink;
#pragma unroll
      for (int j = 0; j < N; ++j)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          scores[i][j][e] = exp2_fast(fmaf(scores[i][j][e], factor, offset));
          sum += scores[i][j][e];
        }
      state.sum[i][half] = sum;
#pragma unroll
      for (int j = 0; j < P; ++j) {
        output[i][j][2 * half] *= shrink;
        output[i][j][2 * half + 1] *= shrink;
      }
    }
}

/// Grid: heads × blocks of queries, the longest of a head first.
template <class T, int D>
__global__ void __launch_bounds__(kTileThreads, 2) attention_forward_kernel(AttentionArguments<T> a) {
  using Tiles = Tiling<D>;
  constexpr int M = Tiles::kM;
  T* const queries = dynamic_shared<T>();
  T* const streamed = queries + Tiles::kOwnTile;  // keys, values; keys, values
  const int blocks = (a.positions + Tiles::kOwn - 1) / Tiles::kOwn;
  const int head = static_cast<int>(blockIdx.x) / blocks;
  const int first = (blocks - 1 - static_cast<int>(blockIdx.x) % blocks) * Tiles::kOwn;
  const int own = first + warp_id() * 16 * M;  // this warp's first query
  T* const own_queries = queries + (own - first) * Tiles::kPitch;

  load_tile<Tiles::kOwn, D>(queries, head_rows(a, a.qkv, head, 0, 3), first, a.positions, a.head_size);
  const auto load = [&](int stage, int key) {
    T* const to = streamed + stage * 2 * Tiles::kStreamedTile;
    load_tile<kStreamed, D>(to, head_rows(a, a.qkv, head, 1, 3), key, a.positions, a.head_size);
    load_tile<kStreamed, D>(to + Tiles::kStreamedTile, head_rows(a, a.qkv, head, 2, 3), key, a.positions, a.head_size);
  };

  const float factor = a.scale * kLog2OfE;
  RunningSoftmax<M> state;
  float output[M][D / 8][4];
  clear(output);
  for (int i = 0; i < M; ++i)
    for (int half = 0; half < 2; ++half) state.maximum[i][half] = kHidden, state.sum[i][half] = 0.0f;
  stream_tiles(0, min(a.positions, first + Tiles::kOwn), load, [&](int stage, int key) {
    if (key >= own + 16 * M || own >= a.positions) return;
    const T* const keys = streamed + stage * 2 * Tiles::kStreamedTile;
    float scores[M][kStreamed / 8][4];
    clear(scores);
    multiply_by_rows<D>(scores, own_queries, keys);
    hide_future(scores, own, key);
    add_to_softmax(state, scores, output, factor);
    std::uint32_t left[M][kStreamed / 16][4];
    round_to_left<T>(left, scores);
    multiply_left<D>(output, left, keys + Tiles::kStreamedTile);
  });

  float reciprocal[M][2];
  for (int i = 0; i < M; ++i)
    for (int half = 0; half < 2; ++half) {
      const int query = own + 16 * i + 8 * half + lane_id() / 4;
      const float sum = row_sum(state.sum[i][half]);
      reciprocal[i][half] = 1.0f / sum;
      if (lane_id() % 4 == 0 && query < a.positions)
        a.log_sums[static_cast<std::size_t>(head) * static_cast<std::size_t>(a.positions) +
                   static_cast<std::size_t>(query)] = state.maximum[i][half] * a.scale + logf(sum);
    }
  store_rows<D>(head_rows(a, a.y, head, 0, 1), output, reciprocal, own_queries, own, a.positions, a.head_size);
}

template <class T, int D>
void launch_forward(const AttentionArguments<T>& arguments, std::size_t heads, cudaStream_t stream) {
  using Tiles = Tiling<D>;
  launch(attention_forward_kernel<T, D>, attention_grid(heads, arguments.positions, Tiles::kOwn), kTileThreads,
         (Tiles::kOwnTile + 4 * Tiles::kStreamedTile) * sizeof(T), stream, arguments);
}

}  // namespace

template <class T>
void attention_forward_tensor(const AttentionArguments<T>& arguments, std::size_t heads, cudaStream_t stream) {
  if (arguments.head_size <= kShortTensorHead)
    launch_forward<T, kShortTensorHead>(arguments, heads, stream);
  else
    launch_forward<T, kLongestTensorHead>(arguments, heads, stream);
}
template void attention_forward_tensor(const AttentionArguments<__nv_bfloat16>&, std::size_t, cudaStream_t);
template void attention_forward_tensor(const AttentionArguments<__half>&, std::size_t, cudaStream_t);

}  // namespace lockstep::kernels
