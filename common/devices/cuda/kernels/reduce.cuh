// Reductions and scans over a warp and a block, always in the same order: reruns are bit-identical. All threads of the
// warp, or block of whole warps, must call them. `scratch` is 32 elements of shared memory.
#pragma once

#include "common/devices/cuda/kernels/elements.cuh"

namespace lockstep::kernels {

constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr int kWarp = 32;

__device__ inline float negative_infinity() { return -__int_as_float(0x7f800000); }

struct Plus {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// Bit-identical in every lane: at each step both partners combine the same two values.
template <class Op>
__device__ inline float warp_reduce(float x, Op op) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) x = op(x, __shfl_xor_sync(kWholeWarp, x, distance));
  return x;
}

/// Bit-identical in every thread.
template <class Op>
__device__ inline float block_reduce(float x, Op op, float neutral, float* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  x = warp_reduce(x, op);
  if (blockDim.x <= kWarp) return x;
  if (lane == 0) scratch[warp] = x;
  __syncthreads();
  x = warp_reduce(lane < static_cast<int>(blockDim.x) / kWarp ? scratch[lane] : neutral, op);
  __syncthreads();  // scratch may be reused
  return x;
}
__device__ inline float block_sum(float x, float* scratch) { return block_reduce(x, Plus(), 0.0f, scratch); }
__device__ inline float block_max(float x, float* scratch) {
  return block_reduce(x, Maximum(), negative_infinity(), scratch);
}

/// Two sums with the barriers of one.
__device__ inline float2 block_sum(float2 x, float2* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  x = make_float2(warp_reduce(x.x, Plus()), warp_reduce(x.y, Plus()));
  if (blockDim.x <= kWarp) return x;
  if (lane == 0) scratch[warp] = x;
  __syncthreads();
  x = lane < static_cast<int>(blockDim.x) / kWarp ? scratch[lane] : make_float2(0.0f, 0.0f);
  x = make_float2(warp_reduce(x.x, Plus()), warp_reduce(x.y, Plus()));
  __syncthreads();  // scratch may be reused
  return x;
}

struct Scanned {
  int before;  // sum over the threads before this one
  int total;   // sum over all threads
};
__device__ inline Scanned block_scan(int x, int* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  int sum = x;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int other = __shfl_up_sync(kWholeWarp, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == kWarp - 1) scratch[warp] = sum;
  __syncthreads();
  int before = 0, total = 0;
  for (int w = 0; w < warps; ++w) {
    if (w == warp) before = total;
    total += scratch[w];
  }
  __syncthreads();
  return {before + sum - x, total};
}

}  // namespace lockstep::kernels
