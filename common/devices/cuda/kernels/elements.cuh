// Element access in kernels: a pack at a time, with 16-byte accesses if the address allows them, and one by one at
// ragged ends and odd offsets. Arithmetic is always on floats.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/devices/cuda/kernels/array.hpp"
#include "common/devices/cuda/kernels/launch.cuh"

namespace lockstep::kernels {

using Index = std::int64_t;

constexpr int kPack = 8;          // default elements per pack: 16 bytes of 16-bit types, 32 of f32
constexpr int kThreads = 256;     // per block, for elementwise work
constexpr int kProcessors = 132;  // multiprocessors of an H100 or H200; other GPUs do not need fewer blocks

// One element ---------------------------------------------------------------------------------------------------------

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widen(__half x) { return __half2float(x); }
/// Integers are added as unsigned numbers, which wrap around.
__device__ inline std::uint32_t widen(std::int32_t x) { return static_cast<std::uint32_t>(x); }

/// Rounds to nearest even.
template <class T, class V>
__device__ inline T narrow(V value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(value);
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(value);
  else
    return static_cast<T>(value);
}

/// e^x for results that are rounded to T. 16-bit types use the GPU's instruction, off by 4 + 1.5|x| roundings of float,
/// which takes a quarter of the instructions. With the library's function, GELU and softmax would be limited by
/// instructions rather than memory.
template <class T>
__device__ inline float exponential(float x) {
  if constexpr (sizeof(T) == 2)
    return __expf(x);
  else
    return expf(x);
}
/// 1 / x; for 16-bit T, 0 for x beyond 2^126.
template <class T>
__device__ inline float reciprocal(float x) {
  if constexpr (sizeof(T) == 2)
    return __fdividef(1.0f, x);
  else
    return 1.0f / x;
}

// Packs ---------------------------------------------------------------------------------------------------------------

template <class T, int N = kPack>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T at[N];
};

/// Elements per pack for a pass over several arrays with these types: four if one is f32, so that the threads of a warp
/// access adjacent 16 bytes. With eight, each store would use only half of what it touches.
template <class... T>
constexpr int kPackOf = (... && (sizeof(T) == 2)) ? kPack : kPack / 2;

/// The packs of N that cover n elements from `data`. Packs are aligned, so the first may begin before the range, and
/// the last end after it.
template <int N>
struct PacksOf {
  Index n = 0;
  int lead = 0;  // elements of the first pack before the range

  template <class T>
  __host__ __device__ PacksOf(const T* data, Index size)
      : n(size), lead(static_cast<int>(reinterpret_cast<std::uintptr_t>(data) % alignof(Pack<T, N>) / sizeof(T))) {}
  /// Packs that begin with the range, whatever its address.
  __host__ __device__ explicit PacksOf(Index size) : n(size) {}

  __host__ __device__ Index count() const { return (n + lead + N - 1) / N; }
  /// Index in the range of the first element of pack p; negative if the first pack begins before the range.
  __host__ __device__ Index first(Index p) const { return p * N - lead; }
};
using Packs = PacksOf<kPack>;

__device__ inline bool is_inside(Index i, Index n) { return i >= 0 && i < n; }

/// True if elements [i, i + N) of n can be accessed as a whole pack.
template <int N, class T>
__device__ inline bool is_whole(const T* x, Index i, Index n) {
  return i >= 0 && i + N <= n && reinterpret_cast<std::uintptr_t>(x + i) % alignof(Pack<T, N>) == 0;
}

/// Unsigned word of so many bytes, which the GPU accesses at once.
template <int Bytes>
struct WordOf;
template <>
struct WordOf<4> {
  using type = std::uint32_t;
};
template <>
struct WordOf<8> {
  using type = uint2;
};
template <>
struct WordOf<16> {
  using type = uint4;
};

/// Writes a pack in words as wide as its alignment. From a plain assignment, nvcc would make stores of single elements
/// if an adjacent branch has such stores.
template <class P>
__device__ inline void store_words(P* to, const P& from) {
  using Word = typename WordOf<alignof(P)>::type;
#pragma unroll
  for (int w = 0; w < static_cast<int>(sizeof(P) / sizeof(Word)); ++w)
    __stwb(reinterpret_cast<Word*>(to) + w, reinterpret_cast<const Word*>(&from)[w]);
}

/// Loads elements [i, i + N) of the n at x; those outside become `outside`.
template <int N = kPack, class T>
__device__ inline Pack<T, N> load(const T* x, Index i, Index n, T outside = T()) {
  Pack<T, N> pack;
  if (is_whole<N>(x, i, n)) {
    pack = *reinterpret_cast<const Pack<T, N>*>(x + i);
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) pack.at[j] = is_inside(i + j, n) ? x[i + j] : outside;
  }
  return pack;
}

/// The inverse of load: does not write outside.
template <class T, int N>
__device__ inline void store(T* x, Index i, Index n, const Pack<T, N>& pack) {
  if (is_whole<N>(x, i, n)) {
    store_words(reinterpret_cast<Pack<T, N>*>(x + i), pack);
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (is_inside(i + j, n)) x[i + j] = pack.at[j];
  }
}

/// Rounds and stores a pack of floats.
template <class T, int N>
__device__ inline void store_floats(T* x, Index i, Index n, const float (&values)[N]) {
  Pack<T, N> pack;
#pragma unroll
  for (int j = 0; j < N; ++j) pack.at[j] = narrow<T>(values[j]);
  store(x, i, n, pack);
}

/// Calls f(i) for the first element i of every pack, each on one thread of the grid.
template <int N, class F>
__device__ inline void for_packs(const PacksOf<N>& packs, const F& f) {
  const Index count = packs.count(), step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index p = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; p < count; p += step) f(packs.first(p));
}

// Operands of any floating-point type, looked up at run time, for small or rarely read data ---------------------------

template <class T>
__device__ inline void load_floats(float (&values)[kPack], const T* x, Index i, Index n) {
  const Pack<T> pack = load(x, i, n);
#pragma unroll
  for (int j = 0; j < kPack; ++j) values[j] = widen(pack.at[j]);
}

__device__ inline void load_floats(float (&values)[kPack], const Array& x, Index i, Index n) {
  if (x.dtype == DType::f32)
    load_floats(values, static_cast<const float*>(x.data), i, n);
  else if (x.dtype == DType::bf16)
    load_floats(values, static_cast<const __nv_bfloat16*>(x.data), i, n);
  else
    load_floats(values, static_cast<const __half*>(x.data), i, n);
}

template <int N>
__device__ inline void store_floats(const Array& x, Index i, Index n, const float (&values)[N]) {
  if (x.dtype == DType::f32)
    store_floats(static_cast<float*>(x.data), i, n, values);
  else if (x.dtype == DType::bf16)
    store_floats(static_cast<__nv_bfloat16*>(x.data), i, n, values);
  else
    store_floats(static_cast<__half*>(x.data), i, n, values);
}

__device__ inline float load_float(const Array& x, Index i) {
  if (x.dtype == DType::f32) return static_cast<const float*>(x.data)[i];
  if (x.dtype == DType::bf16) return widen(static_cast<const __nv_bfloat16*>(x.data)[i]);
  return widen(static_cast<const __half*>(x.data)[i]);
}

__device__ inline void store_float(const Array& x, Index i, float value) {
  if (x.dtype == DType::f32)
    static_cast<float*>(x.data)[i] = value;
  else if (x.dtype == DType::bf16)
    static_cast<__nv_bfloat16*>(x.data)[i] = narrow<__nv_bfloat16>(value);
  else
    static_cast<__half*>(x.data)[i] = narrow<__half>(value);
}

/// Row `row` of x = rows × columns.
__device__ inline Array row_of(const Array& x, Index row, Index columns) {
  const Index width = x.dtype == DType::f32 ? 4 : 2;
  return {static_cast<char*>(x.data) + row * columns * width, static_cast<std::size_t>(columns), x.dtype};
}

// Launching -----------------------------------------------------------------------------------------------------------

template <class T>
struct Type {
  using type = T;
};

/// Calls f(Type<T>()) with the T of a floating-point dtype.
template <class F>
void with_type(DType dtype, const F& f) {
  if (dtype == DType::f32)
    f(Type<float>());
  else if (dtype == DType::bf16)
    f(Type<__nv_bfloat16>());
  else
    f(Type<__half>());
}

inline Index size_of(const Array& x) { return static_cast<Index>(x.size); }
__host__ __device__ inline Index divide_up(Index n, Index by) { return (n + by - 1) / by; }

/// Grid of kThreads-sized blocks for `threads` work items: at most as many blocks as a GPU holds at once, which then
/// loop.
inline dim3 grid_for(Index threads, Index most = 8 * kProcessors) {
  const Index blocks = divide_up(threads, kThreads);
  return dim3(static_cast<unsigned>(blocks < most ? blocks : most));
}

/// Block of whole warps for `work` threads, at most `most`.
inline dim3 block_for(Index work, int most) {
  const Index threads = divide_up(work, 32) * 32;
  return dim3(static_cast<unsigned>(threads < 32 ? 32 : threads < most ? threads : most));
}

}  // namespace lockstep::kernels
