// fill, cast, add, scale, gelu: one pass, one pack of elements per thread and iteration.
#include "common/devices/cuda/kernels/elements.cuh"
#include "common/devices/cuda/kernels/operations.hpp"

namespace lockstep::kernels {

namespace {

template <class T, int N>
__global__ void __launch_bounds__(kThreads) fill_kernel(T* x, PacksOf<N> packs, T value) {
  Pack<T, N> pack;
#pragma unroll
  for (int j = 0; j < N; ++j) pack.at[j] = value;
  for_packs(packs, [&](Index i) { store(x, i, packs.n, pack); });
}

/// y[i] = op(x[i]); y may be x.
template <class Op, class Y, class X, int N>
__global__ void __launch_bounds__(kThreads) map_kernel(Op op, Y* y, const X* x, PacksOf<N> packs) {
  for_packs(packs, [&](Index i) {
    const Pack<X, N> in = load<N>(x, i, packs.n);
    Pack<Y, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.at[j] = narrow<Y>(op(widen(in.at[j])));
    store(y, i, packs.n, out);
  });
}

/// z[i] = op(x[i], y[i]); z may be x or y.
template <class Op, class T, int N>
__global__ void __launch_bounds__(kThreads) map2_kernel(Op op, T* z, const T* x, const T* y, PacksOf<N> packs) {
  for_packs(packs, [&](Index i) {
    const Pack<T, N> a = load<N>(x, i, packs.n), b = load<N>(y, i, packs.n);
    Pack<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.at[j] = narrow<T>(op(widen(a.at[j]), widen(b.at[j])));
    store(z, i, packs.n, out);
  });
}

template <class Op, class Y, class X>
void map(const Queue& queue, Op op, Y* y, const X* x, Index n) {
  constexpr int N = kPackOf<Y, X>;
  const PacksOf<N> packs(y, n);
  launch(map_kernel<Op, Y, X, N>, grid_for(packs.count()), dim3(kThreads), 0, queue.stream, op, y, x, packs);
}

template <class Op, class T>
void map2(const Queue& queue, Op op, T* z, const T* x, const T* y, Index n) {
  constexpr int N = kPackOf<T>;
  const PacksOf<N> packs(z, n);
  launch(map2_kernel<Op, T, N>, grid_for(packs.count()), dim3(kThreads), 0, queue.stream, op, z, x, y, packs);
}

template <class T>
void fill_with(const Queue& queue, T* x, Index n, T value) {
  constexpr int N = kPackOf<T>;
  const PacksOf<N> packs(x, n);
  launch(fill_kernel<T, N>, grid_for(packs.count()), dim3(kThreads), 0, queue.stream, x, packs, value);
}

struct Same {
  __device__ float operator()(float x) const { return x; }
};
struct Sum {
  template <class V>
  __device__ V operator()(V x, V y) const {
    return x + y;
  }
};
struct Times {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};
struct TimesAt {
  const float* factor;
  __device__ float operator()(float x) const { return x * *factor; }
};

/// Scales if the condition holds; a factor of 0 gives 0 whatever x is.
struct TimesIf {
  float factor;
  const float* condition;
  __device__ float operator()(float x) const {
    if (*condition == 0.0f) return x;
    return factor == 0.0f ? 0.0f : x * factor;
  }
};

// GELU, tanh approximation: x · logistic(2u) with u = √(2/π) (x + 0.044715 x³).
constexpr float kTwice = 1.5957691216f;  // 2 √(2/π)
constexpr float kCubic = 0.044715f;

template <class T>
__device__ inline float logistic(float x) {
  return reciprocal<T>(1.0f + exponential<T>(-x));
}

template <class T>
struct Gelu {
  __device__ float operator()(float x) const { return x * logistic<T>(kTwice * x * (1.0f + kCubic * x * x)); }
};
template <class T>
struct GeluBackward {
  __device__ float operator()(float dy, float x) const {
    const float square = kCubic * x * x;
    const float s = logistic<T>(kTwice * x * (1.0f + square));
    return dy * (s + x * s * (1.0f - s) * kTwice * (1.0f + 3.0f * square));
  }
};

}  // namespace

void fill(const Queue& queue, Array x, float value) {
  const Index n = size_of(x);
  switch (x.dtype) {
    case DType::f32: return fill_with(queue, x.as<float>(), n, value);
    case DType::bf16: return fill_with(queue, x.as<__nv_bfloat16>(), n, __float2bfloat16_rn(value));
    case DType::f16: return fill_with(queue, x.as<__half>(), n, __float2half_rn(value));
    case DType::i32: return fill_with(queue, x.as<std::int32_t>(), n, static_cast<std::int32_t>(value));
    case DType::i8: return set_bytes(queue, x.data, static_cast<std::int8_t>(value), x.size);
  }
}

void cast(const Queue& queue, Array y, Array x) {
  with_type(y.dtype, [&](auto to) {
    with_type(x.dtype, [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      map(queue, Same(), y.as<To>(), x.as<const From>(), size_of(y));
    });
  });
}

void add(const Queue& queue, Array z, Array x, Array y) {
  if (z.dtype == DType::i32)
    return map2(queue, Sum(), z.as<std::int32_t>(), x.as<const std::int32_t>(), y.as<const std::int32_t>(), size_of(z));
  with_type(z.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    map2(queue, Sum(), z.as<T>(), x.as<const T>(), y.as<const T>(), size_of(z));
  });
}

void scale(const Queue& queue, Array x, float factor) {
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    map(queue, Times{factor}, x.as<T>(), x.as<const T>(), size_of(x));
  });
}

void scale(const Queue& queue, Array x, Array factor) {
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    map(queue, TimesAt{factor.as<const float>()}, x.as<T>(), x.as<const T>(), size_of(x));
  });
}

void scale_if(const Queue& queue, Array x, float factor, Array condition) {
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    map(queue, TimesIf{factor, condition.as<const float>()}, x.as<T>(), x.as<const T>(), size_of(x));
  });
}

void gelu(const Queue& queue, Array y, Array x) {
  with_type(y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    map(queue, Gelu<T>(), y.as<T>(), x.as<const T>(), size_of(y));
  });
}

void gelu_backward(const Queue& queue, Array dx, Array dy, Array x) {
  with_type(dx.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    map2(queue, GeluBackward<T>(), dx.as<T>(), dy.as<const T>(), x.as<const T>(), size_of(dx));
  });
}

}  // namespace lockstep::kernels
