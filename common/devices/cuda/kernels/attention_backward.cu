// Causal attention, backward, on tensor cores. Scores are recomputed from the log-sum-exp, twice: one kernel owns
// queries and computes dq, and the dot products dy·y that both need; the other owns keys and computes dk and dv. That
// is 7 products instead of FlashAttention-2's 5, but needs no atomic additions: reruns are bit-identical.
//
// On sm_90 (ptxas, heads of 64): 232 registers for dq, 255 for dk and dv, no spills, 72 KiB of shared memory: 2 blocks
// or 8 warps per multiprocessor. For 32 × 32 scores, dk and dv take 128 products, 205 cycles as in
// attention_forward.cu, next to 192 of ldmatrix and 64 of exponentials. To save registers, it takes 32 rows at a time,
// and computes dv before dy·vᵀ.
#include "common/devices/cuda/kernels/attention_launch.cuh"
#include "common/devices/cuda/kernels/attention_tiles.cuh"

namespace lockstep::kernels {

namespace {

constexpr int kStep = 32;  // rows of a streamed tile that a warp takes at once, with products in registers

/// dots[i][half] = Σ a·b over a row of this warp.
template <int D, class T, int M>
__device__ void dot_rows(float (&dots)[M][2], const T* a, const T* b) {
#pragma unroll
  for (int i = 0; i < M; ++i) {
    float sum[2] = {0.0f, 0.0f};
    for (int k = 0; k < D; k += 16) {
      std::uint32_t of_a[4], of_b[4];
      load_left<D>(of_a, a, 16 * i, k);
      load_left<D>(of_b, b, 16 * i, k);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float2 x = Half<T>::unpack(of_a[e]), y = Half<T>::unpack(of_b[e]);
        sum[e % 2] = fmaf(x.x, y.x, fmaf(x.y, y.y, sum[e % 2]));
      }
    }
    dots[i][0] = row_sum(sum[0]);
    dots[i][1] = row_sum(sum[1]);
  }
}

template <class T>
__device__ std::size_t statistic_of(const AttentionArguments<T>& a, int head, int position) {
  return static_cast<std::size_t>(head) * static_cast<std::size_t>(a.positions) + static_cast<std::size_t>(position);
}

/// Computes dq for a block of queries. Grid: heads × blocks of queries, the longest of a head first.
template <class T, int D>
__global__ void __launch_bounds__(kTileThreads, 2) attention_query_gradient_kernel(AttentionArguments<T> a) {
  using Tiles = Tiling<D>;
  constexpr int M = Tiles::kM;
  T* const queries = dynamic_shared<T>();
  T* const gradients = queries + Tiles::kOwnTile;          // dy
  T* const streamed = gradients + Tiles::kOwnTile;         // keys, values; keys, values
  T* const outputs = streamed + 2 * Tiles::kStreamedTile;  // y, until keys are loaded there
  const int blocks = (a.positions + Tiles::kOwn - 1) / Tiles::kOwn;
  const int head = static_cast<int>(blockIdx.x) / blocks;
  const int first = (blocks - 1 - static_cast<int>(blockIdx.x) % blocks) * Tiles::kOwn;
  const int own = first + warp_id() * 16 * M;
  const int own_offset = (own - first) * Tiles::kPitch;

  load_tile<Tiles::kOwn, D>(queries, head_rows(a, a.qkv, head, 0, 3), first, a.positions, a.head_size);
  load_tile<Tiles::kOwn, D>(gradients, head_rows(a, a.dy, head, 0, 1), first, a.positions, a.head_size);
  load_tile<Tiles::kOwn, D>(outputs, head_rows(a, static_cast<const T*>(a.y), head, 0, 1), first, a.positions,
                            a.head_size);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  float dots[M][2], log_sums[M][2];
  dot_rows<D>(dots, gradients + own_offset, outputs + own_offset);
  for (int i = 0; i < M; ++i)
    for (int half = 0; half < 2; ++half) {
      const int query = own + 16 * i + 8 * half + lane_id() / 4;
      const bool inside = query < a.positions;
      log_sums[i][half] = inside ? a.log_sums[statistic_of(a, head, query)] * kLog2OfE : INFINITY;
      if (inside && lane_id() % 4 == 0) a.row_dots[statistic_of(a, head, query)] = dots[i][half];
    }
  __syncthreads();

  const auto load = [&](int stage, int key) {
    T* const to = streamed + stage * 2 * Tiles::kStreamedTile;
    load_tile<kStreamed, D>(to, head_rows(a, a.qkv, head, 1, 3), key, a.positions, a.head_size);
    load_tile<kStreamed, D>(to + Tiles::kStreamedTile, head_rows(a, a.qkv, head, 2, 3), key, a.positions, a.head_size);
  };
  const float factor = a.scale * kLog2OfE;
  float dq[M][D / 8][4];
  clear(dq);
  stream_tiles(0, min(a.positions, first + Tiles::kOwn), load, [&](int stage, int tile) {
    if (own >= a.positions) return;
    const T* keys = streamed + stage * 2 * Tiles::kStreamedTile;
#pragma unroll 1
    for (int key = tile; key < tile + kStreamed && key < own + 16 * M; key += kStep, keys += kStep * Tiles::kPitch) {
      float scores[M][kStep / 8][4], weights[M][kStep / 8][4];
      clear(scores);
      clear(weights);
      multiply_by_rows<D>(scores, queries + own_offset, keys);
      multiply_by_rows<D>(weights, gradients + own_offset, keys + Tiles::kStreamedTile);
#pragma unroll
      for (int i = 0; i < M; ++i)
#pragma unroll
        for (int j = 0; j < kStep / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const bool hidden = key + 8 * j + lane_id() % 4 * 2 + e % 2 > own + 16 * i + lane_id() / 4 + e / 2 * 8;
            const float p = exp2_fast(fmaf(scores[i][j][e], factor, -log_sums[i][e / 2]));
            weights[i][j][e] = hidden ? 0.0f : p * (weights[i][j][e] - dots[i][e / 2]);
          }
      std::uint32_t left[M][kStep / 16][4];
      round_to_left<T>(left, weights);
      multiply_left<D>(dq, left, keys);
    }
  });
  float scales[M][2];
  for (int i = 0; i < M; ++i) scales[i][0] = scales[i][1] = a.scale;
  store_rows<D>(head_rows(a, a.dqkv, head, 0, 3), dq, scales, queries + own_offset, own, a.positions, a.head_size);
}

/// Computes dk and dv for a block of keys: rows of the product are keys, columns are queries. Grid: heads × blocks of
/// keys; the first ones have the most queries.
template <class T, int D>
__global__ void __launch_bounds__(kTileThreads, 2) attention_key_gradient_kernel(AttentionArguments<T> a) {
  using Tiles = Tiling<D>;
  constexpr int M = Tiles::kM;
  T* const keys = dynamic_shared<T>();
  T* const values = keys + Tiles::kOwnTile;
  T* const streamed = values + Tiles::kOwnTile;  // queries, dy; queries, dy
  __shared__ float log_sums[2][kStreamed], dots[2][kStreamed];
  const int blocks = (a.positions + Tiles::kOwn - 1) / Tiles::kOwn;
  const int head = static_cast<int>(blockIdx.x) / blocks;
  const int first = static_cast<int>(blockIdx.x) % blocks * Tiles::kOwn;
  const int own = first + warp_id() * 16 * M;
  const int own_offset = (own - first) * Tiles::kPitch;

  load_tile<Tiles::kOwn, D>(keys, head_rows(a, a.qkv, head, 1, 3), first, a.positions, a.head_size);
  load_tile<Tiles::kOwn, D>(values, head_rows(a, a.qkv, head, 2, 3), first, a.positions, a.head_size);
  const auto load = [&](int stage, int query) {
    T* const to = streamed + stage * 2 * Tiles::kStreamedTile;
    load_tile<kStreamed, D>(to, head_rows(a, a.qkv, head, 0, 3), query, a.positions, a.head_size);
    load_tile<kStreamed, D>(to + Tiles::kStreamedTile, head_rows(a, a.dy, head, 0, 1), query, a.positions, a.head_size);
    const int at = static_cast<int>(threadIdx.x);
    if (at >= kStreamed) return;
    const bool inside = query + at < a.positions;  // outside: probabilities of 0
    log_sums[stage][at] = inside ? a.log_sums[statistic_of(a, head, query + at)] * kLog2OfE : INFINITY;
    dots[stage][at] = inside ? a.row_dots[statistic_of(a, head, query + at)] : 0.0f;
  };

  const float factor = a.scale * kLog2OfE;
  float dk[M][D / 8][4], dv[M][D / 8][4];
  clear(dk);
  clear(dv);
  stream_tiles(first, a.positions, load, [&](int stage, int tile) {
    if (own >= a.positions) return;
    const T* const tile_queries = streamed + stage * 2 * Tiles::kStreamedTile;
#pragma unroll 1
    for (int step = 0; step < kStreamed; step += kStep) {
      const int query = tile + step;
      if (query + kStep <= own || query >= a.positions) continue;
      const T* const step_queries = tile_queries + step * Tiles::kPitch;
      float product[M][kStep / 8][4];
      std::uint32_t weights[M][kStep / 16][4], slopes[M][kStep / 16][4];
      clear(product);
      multiply_by_rows<D>(product, keys + own_offset, step_queries);
      for_elements(product, [&](float& score, int row, int column) {
        const bool hidden = own + row > query + column;
        score = hidden ? 0.0f : exp2_fast(fmaf(score, factor, -log_sums[stage][step + column]));
      });
      round_to_left<T>(weights, product);
      multiply_left<D>(dv, weights, step_queries + Tiles::kStreamedTile);
      clear(product);
      multiply_by_rows<D>(product, values + own_offset, step_queries + Tiles::kStreamedTile);
      for_elements(product, [&](float& slope, int, int column) { slope -= dots[stage][step + column]; });
      multiply_elements<T>(product, weights);
      round_to_left<T>(slopes, product);
      multiply_left<D>(dk, slopes, step_queries);
    }
  });
  float ones[M][2], scales[M][2];
  for (int i = 0; i < M; ++i) {
    ones[i][0] = ones[i][1] = 1.0f;
    scales[i][0] = scales[i][1] = a.scale;
  }
  store_rows<D>(head_rows(a, a.dqkv, head, 1, 3), dk, scales, keys + own_offset, own, a.positions, a.head_size);
  store_rows<D>(head_rows(a, a.dqkv, head, 2, 3), dv, ones, values + own_offset, own, a.positions, a.head_size);
}

template <class T, int D>
void launch_backward(const AttentionArguments<T>& arguments, std::size_t heads, cudaStream_t stream) {
  using Tiles = Tiling<D>;
  const dim3 grid = attention_grid(heads, arguments.positions, Tiles::kOwn);
  constexpr std::size_t shared = (2 * Tiles::kOwnTile + 4 * Tiles::kStreamedTile) * sizeof(T);
  static_assert(shared + 4 * kStreamed * sizeof(float) <= kLongHeadSharedBytes, "what attention.cu asks for suffices");
  launch(attention_query_gradient_kernel<T, D>, grid, kTileThreads, shared, stream, arguments);
  launch(attention_key_gradient_kernel<T, D>, grid, kTileThreads, shared, stream, arguments);
}

}  // namespace

template <class T>
void attention_backward_tensor(const AttentionArguments<T>& arguments, std::size_t heads, cudaStream_t stream) {
  if (arguments.head_size <= kShortTensorHead)
    launch_backward<T, kShortTensorHead>(arguments, heads, stream);
  else
    launch_backward<T, kLongestTensorHead>(arguments, heads, stream);
}
template void attention_backward_tensor(const AttentionArguments<__nv_bfloat16>&, std::size_t, cudaStream_t);
template void attention_backward_tensor(const AttentionArguments<__half>&, std::size_t, cudaStream_t);

}  // namespace lockstep::kernels
