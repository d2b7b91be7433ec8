// Access to rows in kernels whose blocks each work on one row at a time. The first packs of a thread stay in its
// registers between the passes over the row, so that the row is read from memory once; the rest of a longer row is read
// again, from a cache.
#pragma once

#include "common/devices/cuda/kernels/reduce.cuh"

namespace lockstep::kernels {

/// The packs of a row that a thread keeps in registers.
template <class T, int kKept>
struct Kept {
  Pack<T> pack[kKept];
};

template <int kKept, class T>
__device__ inline Kept<T, kKept> keep(const T* x, const Packs& packs) {
  Kept<T, kKept> kept;
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const Index p = threadIdx.x + static_cast<Index>(k) * blockDim.x;
    if (p < packs.count()) kept.pack[k] = load(x, packs.first(p), packs.n);
  }
  return kept;
}

/// Calls f(pack, i) for each of this thread's packs of the row at x; i is the pack's first element.
template <int kKept, class T, class F>
__device__ inline void for_row(const Kept<T, kKept>& kept, const T* x, const Packs& packs, const F& f) {
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const Index p = threadIdx.x + static_cast<Index>(k) * blockDim.x;
    if (p < packs.count()) f(kept.pack[k], packs.first(p));
  }
  for (Index p = threadIdx.x + static_cast<Index>(kKept) * blockDim.x; p < packs.count(); p += blockDim.x)
    f(load(x, packs.first(p), packs.n), packs.first(p));
}

}  // namespace lockstep::kernels
