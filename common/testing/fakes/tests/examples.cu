#include <tensor_cores.hpp>

#include "common/devices/cuda/kernels/launch.cuh"
#include "common/testing/fakes/tests/examples.hpp"

namespace lockstep::examples {

namespace {

using kernels::dynamic_shared;
using kernels::launch;

constexpr int kBlock = 256, kWarp = 32;
constexpr unsigned kAll = 0xffffffffu;

template <typename T>
__device__ T warp_sum(T value) {
  for (int by = kWarp / 2; by > 0; by /= 2) value += __shfl_xor_sync(kAll, value, by);
  return value;
}

template <typename T>
__global__ void block_sums_kernel(const T* values, int count, T* sums) {
  __shared__ T of_warp[kBlock / kWarp];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const T warp = warp_sum(i < count ? values[i] : T(0));
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = warp;
  __syncthreads();
  if (threadIdx.x < kWarp) {
    const T block = warp_sum(threadIdx.x < kBlock / kWarp ? of_warp[threadIdx.x] : T(0));
    if (threadIdx.x == 0) sums[blockIdx.x] = block;
  }
}

__global__ void tiny_product_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  __shared__ __align__(16) __nv_bfloat16 tile[16 * 16 + 16 * 8];
  __nv_bfloat16* const b_tile = tile + 16 * 16;
  for (int i = static_cast<int>(threadIdx.x); i < 16 * 16 / 8; i += kWarp)
    kernels::cp_async_16(tile + 8 * i, a + 8 * i);
  for (int i = static_cast<int>(threadIdx.x); i < 16 * 8 / 8; i += kWarp)
    kernels::cp_async_16(b_tile + 8 * i, b + 8 * i);
  kernels::cp_async_commit();
  kernels::cp_async_wait<0>();
  __syncwarp();
  const int lane = static_cast<int>(threadIdx.x), row = lane % 8, matrix = lane / 8;
  std::uint32_t of_a[4], of_b[4];
  kernels::ldmatrix_x4(of_a, tile + (row + matrix % 2 * 8) * 16 + matrix / 2 * 8);
  kernels::ldmatrix_x4_trans(of_b, b_tile + (row + matrix % 2 * 8) * 8);
  const float zero[4] = {0, 0, 0, 0};
  const std::uint32_t two[2] = {of_b[0], of_b[1]};
  float d[4];
  kernels::mma_m16n8k16_bf16(d, of_a, two, zero);
  const int g = lane / 4, t = lane % 4;
  for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}

__global__ void reverse_kernel(const float* x, float* y, int count) {
  float* const all = dynamic_shared<float>();
  all[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = all[count - 1 - static_cast<int>(threadIdx.x)];
}

__global__ void count_modulo_4_kernel(int* counts, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) atomicAdd(&counts[i % 4], 1);
}

__global__ void add_one_kernel(const float* x, float* y, int count, int past) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count + past) y[i] = (i < count ? x[i] : 0.0f) + 1;
}

__global__ void barrier_in_half_kernel(float* y) {
  if (threadIdx.x >= 32) return;
  __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void shuffle_without_lanes_kernel(float* y) {
  if (threadIdx.x % 2 == 1) return;
  y[threadIdx.x] = warp_sum(1.0f);
}

__global__ void two_barriers_kernel(float* y) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    y[threadIdx.x] = 1;
    __syncthreads();
  }
}

__global__ void unwritten_shared_kernel(float* y) {
  __shared__ float values[kBlock];
  if (threadIdx.x != 3) values[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = values[threadIdx.x];
}

__global__ void missing_barrier_kernel(float* y) {
  __shared__ float values[kBlock];
  values[threadIdx.x] = 1;
  y[threadIdx.x] = values[kBlock - 1 - threadIdx.x];
}

__global__ void past_shared_kernel(float* y) {
  dynamic_shared<float>()[threadIdx.x] = 1;
  y[threadIdx.x] = 1;
}

__global__ void misaligned_load_kernel(float* y) {
  if (threadIdx.x == 5) y[0] = reinterpret_cast<const float4*>(y + 1)->x;
}

__global__ void misaligned_copy_kernel(float* y) {
  __shared__ __align__(16) float values[kBlock];
  kernels::cp_async_16(values, y + 2);
  kernels::cp_async_commit();
  kernels::cp_async_wait<0>();
}

__global__ void last_block_kernel(float* y) { y[0] = static_cast<float>(blockIdx.x); }

__global__ void short_functions_kernel(const float* x, float* exponentials, float* reciprocals) {
  exponentials[threadIdx.x] = __expf(x[threadIdx.x]);
  reciprocals[threadIdx.x] = __fdividef(1, x[threadIdx.x]);
}

}  // namespace

void block_sums(const float* values, int count, float* sums, int blocks, cudaStream_t stream) {
  launch(block_sums_kernel<float>, blocks, kBlock, 0, stream, values, count, sums);
}
void tiny_product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, cudaStream_t stream) {
  launch(tiny_product_kernel, 1, kWarp, 0, stream, a, b, c);
}
void reverse(const float* x, float* y, int count, cudaStream_t stream) {
  launch(reverse_kernel, 1, count, sizeof(float) * count, stream, x, y, count);
}
void count_modulo_4(int* counts, int count, cudaStream_t stream) {
  launch(count_modulo_4_kernel, (count + kBlock - 1) / kBlock, kBlock, 0, stream, counts, count);
}
void add_one(const float* x, float* y, int count, int past, cudaStream_t stream) {
  launch(add_one_kernel, (count + past + kBlock - 1) / kBlock, kBlock, 0, stream, x, y, count, past);
}
void barrier_in_half(float* y, cudaStream_t stream) { launch(barrier_in_half_kernel, 1, kBlock, 0, stream, y); }
void shuffle_without_lanes(float* y, cudaStream_t stream) {
  launch(shuffle_without_lanes_kernel, 1, kWarp, 0, stream, y);
}
void two_barriers(float* y, cudaStream_t stream) { launch(two_barriers_kernel, 1, kBlock, 0, stream, y); }
void unwritten_shared(float* y, cudaStream_t stream) { launch(unwritten_shared_kernel, 1, kBlock, 0, stream, y); }
void missing_barrier(float* y, cudaStream_t stream) { launch(missing_barrier_kernel, 1, kBlock, 0, stream, y); }
void past_shared(float* y, cudaStream_t stream) {
  launch(past_shared_kernel, 1, kBlock, sizeof(float) * (kBlock - 1), stream, y);
}

void misaligned_load(float* y, cudaStream_t stream) { launch(misaligned_load_kernel, 1, kBlock, 0, stream, y); }
void misaligned_copy(float* y, cudaStream_t stream) { launch(misaligned_copy_kernel, 1, kBlock, 0, stream, y); }
void last_block(float* y, cudaStream_t stream) { launch(last_block_kernel, 50, kWarp, 0, stream, y); }
void short_functions(const float* x, float* exponentials, float* reciprocals, int count, cudaStream_t stream) {
  launch(short_functions_kernel, 1, count, 0, stream, x, exponentials, reciprocals);
}

}  // namespace lockstep::examples
