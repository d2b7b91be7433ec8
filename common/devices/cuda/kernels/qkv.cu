// Operations on q, k and v around attention: rotary positions, and heads of k and v shared by groups of heads, which
// are copied for each head before attention and whose gradients are added up after it.
#include "common/devices/cuda/kernels/attention.hpp"
#include "common/devices/cuda/kernels/elements.cuh"
#include "common/devices/cuda/kernels/turns.cuh"

namespace lockstep::kernels {

namespace {

constexpr double kTurnsOfRadian = 0.15915494309189535;

/// One block per position of a sequence, one thread per pair of channels, whose angle is the same in all heads. The
/// angle of each pair is smaller than that of the one before by a factor of 2^slower.
template <class T>
__global__ void __launch_bounds__(kThreads) rotate_kernel(T* x, int positions, long long begin, int heads, Index width,
                                                          int head_size, double slower, bool back) {
  const Index row = blockIdx.x;
  const long long position = begin + static_cast<int>(blockIdx.x % static_cast<unsigned>(positions));
  const int half = head_size / 2;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += static_cast<int>(blockDim.x)) {
    const double turns = static_cast<double>(position) * exp2(-slower * static_cast<double>(i)) * kTurnsOfRadian;
    const SineCosine angle = sine_cosine(static_cast<float>(turns - floor(turns)));
    const float sine = back ? -angle.sine : angle.sine;
    T* first = x + row * width + i;
    for (int head = 0; head < heads; ++head, first += head_size) {
      const float a = widen(first[0]), b = widen(first[half]);
      first[0] = narrow<T>(a * angle.cosine - b * sine);
      first[half] = narrow<T>(b * angle.cosine + a * sine);
    }
  }
}

/// Widths of qkv, in elements per position. Shared: k and v have `kv` each. Spread: they are as wide as q.
struct Widths {
  int q, kv, head_size;

  __host__ __device__ int shared() const { return q + 2 * kv; }
  __host__ __device__ int spread() const { return 3 * q; }
  __host__ __device__ int group() const { return q / kv; }
  /// For element i of a spread position, its index in the shared one.
  __device__ int from(int i) const {
    if (i < q) return i;
    const int part = (i - q) / q, within = (i - q) % q, head = within / head_size / group();
    return q + part * kv + head * head_size + within % head_size;
  }
  /// For element i of a shared position, the index of its first copy in the spread one; further copies are head_size
  /// apart.
  __device__ int to(int i) const {
    if (i < q) return i;
    const int part = (i - q) / kv, within = (i - q) % kv, head = within / head_size * group();
    return (1 + part) * q + head * head_size + within % head_size;
  }
};

/// One block per position.
template <class T>
__global__ void __launch_bounds__(kThreads) spread_kernel(T* to, const T* from, Widths widths) {
  to += static_cast<Index>(blockIdx.x) * widths.spread();
  from += static_cast<Index>(blockIdx.x) * widths.shared();
  for (int i = static_cast<int>(threadIdx.x); i < widths.spread(); i += static_cast<int>(blockDim.x))
    to[i] = from[widths.from(i)];
}

template <class T>
__global__ void __launch_bounds__(kThreads) add_groups_kernel(T* to, const T* from, Widths widths) {
  to += static_cast<Index>(blockIdx.x) * widths.shared();
  from += static_cast<Index>(blockIdx.x) * widths.spread();
  for (int i = static_cast<int>(threadIdx.x); i < widths.shared(); i += static_cast<int>(blockDim.x)) {
    const int first = widths.to(i), copies = i < widths.q ? 1 : widths.group();
    float sum = 0;
    for (int copy = 0; copy < copies; ++copy) sum += widen(from[first + copy * widths.head_size]);
    to[i] = narrow<T>(sum);
  }
}

Widths widths_of(AttentionSize size, std::size_t kv_heads) {
  return {static_cast<int>(size.heads * size.head_size), static_cast<int>(kv_heads * size.head_size),
          static_cast<int>(size.head_size)};
}

dim3 positions_of(AttentionSize size) { return dim3(static_cast<unsigned>(size.batch * size.positions)); }

}  // namespace

void rotate_positions(const Queue& queue, Array x, RotarySize size, double log2_base, bool back) {
  if (x.size == 0) return;
  const Index rows = static_cast<Index>(size.batch * size.positions);
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(rotate_kernel<T>, dim3(static_cast<unsigned>(rows)), block_for(static_cast<Index>(size.head_size / 2), 256),
           0, queue.stream, x.as<T>(), static_cast<int>(size.positions), static_cast<long long>(size.first),
           static_cast<int>(size.turning), size_of(x) / rows, static_cast<int>(size.head_size),
           2 * log2_base / static_cast<double>(size.head_size), back);
  });
}

void spread_groups(const Queue& queue, Array to, Array from, AttentionSize size, std::size_t kv_heads) {
  with_type(to.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(spread_kernel<T>, positions_of(size), dim3(kThreads), 0, queue.stream, to.as<T>(), from.as<const T>(),
           widths_of(size, kv_heads));
  });
}

void add_groups(const Queue& queue, Array to, Array from, AttentionSize size, std::size_t kv_heads) {
  with_type(to.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(add_groups_kernel<T>, positions_of(size), dim3(kThreads), 0, queue.stream, to.as<T>(), from.as<const T>(),
           widths_of(size, kv_heads));
  });
}

}  // namespace lockstep::kernels
