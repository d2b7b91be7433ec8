// SwiGLU (arXiv 2002.05202): silu(gate) · up on rows of gate, then up; one element per thread and iteration.
#include "common/devices/cuda/kernels/elements.cuh"
#include "common/devices/cuda/kernels/operations.hpp"

namespace lockstep::kernels {

namespace {

/// For element i of N × width, the index of its gate in N × 2 width; its up is `width` further.
__device__ inline Index gate_of(Index i, Index width) { return i + i / width * width; }

template <class F>
__device__ inline void for_elements(Index count, const F& f) {
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) f(i);
}

template <class T>
__device__ inline float logistic(float x) {
  return reciprocal<T>(1.0f + exponential<T>(-x));
}

template <class T>
__global__ void __launch_bounds__(kThreads) swiglu_kernel(T* y, const T* x, Index count, Index width) {
  for_elements(count, [&](Index i) {
    const Index at = gate_of(i, width);
    const float gate = widen(x[at]);
    y[i] = narrow<T>(gate * logistic<T>(gate) * widen(x[at + width]));
  });
}

/// dx may be x.
template <class T>
__global__ void __launch_bounds__(kThreads)
    swiglu_backward_kernel(T* dx, const T* dy, const T* x, Index count, Index width) {
  for_elements(count, [&](Index i) {
    const Index at = gate_of(i, width);
    const float gate = widen(x[at]), up = widen(x[at + width]), s = logistic<T>(gate), gradient = widen(dy[i]);
    dx[at] = narrow<T>(gradient * up * s * (1.0f + gate * (1.0f - s)));
    dx[at + width] = narrow<T>(gradient * gate * s);
  });
}

}  // namespace

void swiglu(const Queue& queue, Array y, Array x, std::size_t width) {
  with_type(y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(swiglu_kernel<T>, grid_for(size_of(y)), dim3(kThreads), 0, queue.stream, y.as<T>(), x.as<const T>(),
           size_of(y), static_cast<Index>(width));
  });
}

void swiglu_backward(const Queue& queue, Array dx, Array dy, Array x, std::size_t width) {
  with_type(dx.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(swiglu_backward_kernel<T>, grid_for(size_of(dy)), dim3(kThreads), 0, queue.stream, dx.as<T>(),
           dy.as<const T>(), x.as<const T>(), size_of(dy), static_cast<Index>(width));
  });
}

}  // namespace lockstep::kernels
