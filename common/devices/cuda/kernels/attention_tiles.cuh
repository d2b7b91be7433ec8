// Building blocks of attention on tensor cores: tiles of a head's rows in shared memory, and a warp's products with
// them. A block has 4 warps. Each owns 16·M rows of the block's own tiles; tiles of 64 rows are streamed, in two
// stages. Rows of a tile are padded by 16 bytes, so that the 8 rows of an ldmatrix fall on different banks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <tensor_cores.hpp>

#include "common/devices/cuda/kernels/attention_arguments.cuh"

namespace lockstep::kernels {

constexpr int kTileWarps = 4;
constexpr int kTileThreads = 32 * kTileWarps;
constexpr int kStreamed = 64;  // rows of a streamed tile
constexpr float kLog2OfE = 1.4426950408889634f;

/// Sizes for heads of up to D elements; shorter ones are padded with zeros.
template <int D>
struct Tiling {
  static constexpr int kM = D <= 64 ? 2 : 1;         // products of 16 rows that a warp computes at once
  static constexpr int kOwn = kTileWarps * 16 * kM;  // rows per block
  static constexpr int kPitch = D + 8;               // elements between rows
  static constexpr int kOwnTile = kOwn * kPitch;     // elements
  static constexpr int kStreamedTile = kStreamed * kPitch;
};

inline __device__ int lane_id() { return static_cast<int>(threadIdx.x) % 32; }
inline __device__ int warp_id() { return static_cast<int>(threadIdx.x) / 32; }

template <class To, class From>
__device__ To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to;
}

/// Operations that differ between the 16-bit types.
template <class T>
struct Half;
template <>
struct Half<__nv_bfloat16> {
  static __device__ void multiply(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    mma_m16n8k16_bf16(d, a, b, d);
  }
  static __device__ std::uint32_t pack(float low, float high) {
    return same_bits<std::uint32_t>(__floats2bfloat162_rn(low, high));
  }
  static __device__ float2 unpack(std::uint32_t pair) { return __bfloat1622float2(same_bits<__nv_bfloat162>(pair)); }
};
template <>
struct Half<__half> {
  static __device__ void multiply(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    mma_m16n8k16_f16(d, a, b, d);
  }
  static __device__ std::uint32_t pack(float low, float high) {
    return same_bits<std::uint32_t>(__floats2half2_rn(low, high));
  }
  static __device__ float2 unpack(std::uint32_t pair) { return __half22float2(same_bits<__half2>(pair)); }
};

// Between global and shared memory ------------------------------------------------------------------------------------

/// Queues the copy of rows first … first + Rows − 1 into `tile`, by all threads of the block; elements beyond the last
/// position or the head's size become 0.
template <int Rows, int D, class T>
__device__ void load_tile(T* tile, HeadRows<const T> from, int first, int positions, int head_size) {
  const int column = static_cast<int>(threadIdx.x) % (D / 8) * 8;
#pragma unroll 1  // unrolled, its addresses would take the registers that products need
  for (int row = static_cast<int>(threadIdx.x) / (D / 8); row < Rows; row += kTileThreads / (D / 8)) {
    T* to = tile + row * Tiling<D>::kPitch + column;
    if (first + row < positions && column < head_size)
      cp_async_16(to, from.row(first + row) + column);
    else
      *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
  }
}

/// Writes a warp's 16·M rows of a product, each times factor[its row], through `tile`, which no other warp may use.
template <int D, int M, class T>
__device__ void store_rows(HeadRows<T> to, const float (&product)[M][D / 8][4], const float (&factor)[M][2], T* tile,
                           int first, int positions, int head_size) {
  const int lane = lane_id();
  __syncwarp();
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = i * 16 + half * 8 + lane / 4, column = j * 8 + lane % 4 * 2;
        const float f = factor[i][half];
        *reinterpret_cast<std::uint32_t*>(tile + row * Tiling<D>::kPitch + column) =
            Half<T>::pack(product[i][j][2 * half] * f, product[i][j][2 * half + 1] * f);
      }
  __syncwarp();
  const int column = lane % (D / 8) * 8;
  for (int row = lane / (D / 8); row < 16 * M; row += 32 / (D / 8))
    if (first + row < positions && column < head_size)
      *reinterpret_cast<uint4*>(to.row(first + row) + column) =
          *reinterpret_cast<const uint4*>(tile + row * Tiling<D>::kPitch + column);
}

// Products of a warp --------------------------------------------------------------------------------------------------

template <int M, int N>
__device__ void clear(float (&product)[M][N][4]) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j)
      for (int e = 0; e < 4; ++e) product[i][j][e] = 0.0f;
}

/// Loads the 16 × 16 part of `tile` at (row, column) as the left operand of a product.
template <int D, class T>
__device__ void load_left(std::uint32_t (&left)[4], const T* tile, int row, int column) {
  const int lane = lane_id();
  ldmatrix_x4(left, tile + (row + lane % 16) * Tiling<D>::kPitch + column + lane / 16 * 8);
}

/// product += a · bᵀ, where a is 16·M × D and b is 8·N × D, both row-major in shared memory.
template <int D, class T, int M, int N>
__device__ void multiply_by_rows(float (&product)[M][N][4], const T* a, const T* b) {
  const int lane = lane_id();
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    std::uint32_t left[M][4];
#pragma unroll
    for (int i = 0; i < M; ++i) load_left<D>(left[i], a, 16 * i, k);
#pragma unroll
    for (int j = 0; j < N; j += 2) {
      std::uint32_t right[4];
      ldmatrix_x4(right, b + (8 * j + lane % 8 + lane / 16 * 8) * Tiling<D>::kPitch + k + lane / 8 % 2 * 8);
      const std::uint32_t first[2] = {right[0], right[1]}, second[2] = {right[2], right[3]};
#pragma unroll
      for (int i = 0; i < M; ++i) {
        Half<T>::multiply(product[i][j], left[i], first);
        Half<T>::multiply(product[i][j + 1], left[i], second);
      }
    }
  }
}

/// Rounds a product, 16·M × 8·N, to T, as the left operand of another product.
template <class T, int M, int N>
__device__ void round_to_left(std::uint32_t (&left)[M][N / 2][4], const float (&w)[M][N][4]) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int k = 0; k < N / 2; ++k)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        left[i][k][e] = Half<T>::pack(w[i][2 * k + e / 2][e % 2 * 2], w[i][2 * k + e / 2][e % 2 * 2 + 1]);
}

/// Calls f(element, its row, its column) for this lane's elements of a product.
template <int M, int N, class F>
__device__ __forceinline__ void for_elements(float (&product)[M][N][4], F f) {
  const int lane = lane_id();
#pragma unroll
  for (int j = 0; j < N; ++j)
#pragma unroll
    for (int i = 0; i < M; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) f(product[i][j][e], 16 * i + e / 2 * 8 + lane / 4, 8 * j + lane % 4 * 2 + e % 2);
}

/// Multiplies each element of a product by the same element of `left`.
template <class T, int M, int N>
__device__ void multiply_elements(float (&product)[M][N][4], const std::uint32_t (&left)[M][N / 2][4]) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 pair = Half<T>::unpack(left[i][j / 2][j % 2 * 2 + half]);
        product[i][j][2 * half] *= pair.x;
        product[i][j][2 * half + 1] *= pair.y;
      }
}

/// product += left · b, where left is 16·M × 16·K and b is 16·K × D, row-major in shared memory.
template <int D, class T, int M, int K>
__device__ void multiply_left(float (&product)[M][D / 8][4], const std::uint32_t (&left)[M][K][4], const T* b) {
  const int lane = lane_id();
#pragma unroll
  for (int k = 0; k < K; ++k)
#pragma unroll
    for (int j = 0; j < D / 8; j += 2) {
      std::uint32_t right[4];
      ldmatrix_x4_trans(right, b + (16 * k + lane % 16) * Tiling<D>::kPitch + 8 * j + lane / 16 * 8);
      const std::uint32_t first[2] = {right[0], right[1]}, second[2] = {right[2], right[3]};
#pragma unroll
      for (int i = 0; i < M; ++i) {
        Half<T>::multiply(product[i][j], left[i][k], first);
        Half<T>::multiply(product[i][j + 1], left[i][k], second);
      }
    }
}

/// Calls use(stage, row) for the tiles that begin at rows first, first + 64, … below `end`, in order, while the next
/// one is loading: load(stage, row) queues its copies. Stages are 0 and 1. Copies queued earlier count towards the
/// first tile.
template <class Load, class Use>
__device__ __forceinline__ void stream_tiles(int first, int end, Load load, Use use) {
  load(0, first);
  cp_async_commit();
  for (int row = first, stage = 0; row < end; row += kStreamed, stage ^= 1) {
    if (row + kStreamed < end) {
      load(stage ^ 1, row + kStreamed);
      cp_async_commit();
      cp_async_wait<1>();
    } else {
      cp_async_wait<0>();
    }
    __syncthreads();
    use(stage, row);
    __syncthreads();
  }
}

/// The sum, or maximum, over the 4 lanes that share a row of a product.
inline __device__ float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
inline __device__ float row_maximum(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

}  // namespace lockstep::kernels
