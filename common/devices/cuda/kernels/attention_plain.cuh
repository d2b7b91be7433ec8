// Building blocks of attention by plain loops: a block of 256 threads multiplies tiles of 32 × 32 floats in shared
// memory.
#pragma once

#include "common/devices/cuda/kernels/attention_arguments.cuh"
#include "common/devices/cuda/kernels/reduce.cuh"

namespace lockstep::kernels {

constexpr int kSide = 32;              // rows and columns of a tile
constexpr int kLanes = 256 / kSide;    // rows that a block's threads cover at once
constexpr int kRows = kSide / kLanes;  // rows of a tile per thread
constexpr int kParts = 4;              // tiles of a result's columns computed together

/// One tile, with one float of padding per row.
struct Tile {
  float at[kSide][kSide + 1];
};

/// A thread's part of a tile: column `x`, and rows y, y + 8, y + 16, y + 24.
struct Place {
  int x = static_cast<int>(threadIdx.x) % kSide;
  int y = static_cast<int>(threadIdx.x) / kSide;
  __device__ int row(int r) const { return y + r * kLanes; }
};

/// Loads positions first … first + 31, elements column … column + 31 of a head; 0 outside.
template <class T>
__device__ void load(Tile& tile, HeadRows<const T> from, int first, int column, int positions, int head_size) {
  const Place place;
  for (int r = 0; r < kRows; ++r) {
    const int position = first + place.row(r), element = column + place.x;
    const bool inside = position < positions && element < head_size;
    tile.at[place.row(r)][place.x] = inside ? widen(from.row(position)[element]) : 0.0f;
  }
}

/// Calls f(k) for each k < most, eight at a time: for short heads or sequences, most of a tile is zeros.
template <class F>
__device__ void for_terms(int most, const F& f) {
  constexpr int kTogether = 8;
  for (int k = 0; k < min(most, kSide); k += kTogether) {
#pragma unroll
    for (int i = 0; i < kTogether; ++i) f(k + i);
  }
}

/// The two tiles that a block multiplies.
struct TilePair {
  Tile a, b;
};

/// products[r] = row row(r) of a · row x of b, over whole heads; a and b begin at the given positions.
template <class T>
__device__ void multiply_rows(float (&products)[kRows], TilePair& shared, HeadRows<const T> a, int a_first,
                              HeadRows<const T> b, int b_first, int positions, int head_size) {
  const Place place;
  for (float& product : products) product = 0.0f;
  for (int column = 0; column < head_size; column += kSide) {
    load(shared.a, a, a_first, column, positions, head_size);
    load(shared.b, b, b_first, column, positions, head_size);
    __syncthreads();
    for_terms(head_size - column, [&](int k) {
      for (int r = 0; r < kRows; ++r)
        products[r] = fmaf(shared.a.at[place.row(r)][k], shared.b.at[place.x][k], products[r]);
    });
    __syncthreads();
  }
}

using Sums = float[kParts][kRows];

/// sums += weights · rows of b (32 positions from b_first), for columns column … column + 127.
template <class T>
__device__ void add_weighted(Sums& sums, TilePair& shared, const float (&weights)[kRows], HeadRows<const T> b,
                             int b_first, int column, int positions, int head_size) {
  const Place place;
  for (int r = 0; r < kRows; ++r) shared.a.at[place.row(r)][place.x] = weights[r];
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    if (column + part * kSide >= head_size) break;  // the same for the whole block
    load(shared.b, b, b_first, column + part * kSide, positions, head_size);
    __syncthreads();
    for_terms(positions - b_first, [&](int k) {
      for (int r = 0; r < kRows; ++r)
        sums[part][r] = fmaf(shared.a.at[place.row(r)][k], shared.b.at[k][place.x], sums[part][r]);
    });
    __syncthreads();
  }
}

template <class T>
__device__ void store(HeadRows<T> to, const Sums& sums, float factor, int first, int column, int positions,
                      int head_size) {
  const Place place;
#pragma unroll
  for (int part = 0; part < kParts; ++part)
    for (int r = 0; r < kRows; ++r) {
      const int position = first + place.row(r), element = column + part * kSide + place.x;
      if (position < positions && element < head_size) to.row(position)[element] = narrow<T>(sums[part][r] * factor);
    }
}

inline __device__ void clear(Sums& sums) {
  for (auto& part : sums)
    for (float& sum : part) sum = 0.0f;
}

}  // namespace lockstep::kernels
