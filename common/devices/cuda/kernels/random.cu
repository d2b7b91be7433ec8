// Counter-based random numbers, bit-identical to the CPU device (described in common/devices/cpu/random.cpp). Global
// element e belongs to block e / 256; its 32 bits are word (e / 64) mod 4 of Philox's output for counter 64 · (e / 256)
// + e mod 64. A thread takes eight consecutive counters, and so four packs of eight elements, 64 apart.
#include "common/devices/cuda/kernels/elements.cuh"
#include "common/devices/cuda/kernels/operations.hpp"
#include "common/devices/cuda/kernels/philox.cuh"
#include "common/devices/cuda/kernels/turns.cuh"

namespace lockstep::kernels {

namespace {

struct Uniform {
  float low, width, largest;
  __device__ void operator()(float (&values)[4], const PhiloxWords& bits) const {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float value = fmaf(width, unit(bits.word[w]), low);
      values[w] = value < largest ? value : largest;  // rounding may have reached the excluded bound
    }
  }
};

/// Box–Muller on words 0 and 1, and on words 2 and 3.
struct Normal {
  float mean, deviation;
  __device__ void operator()(float (&values)[4], const PhiloxWords& bits) const {
#pragma unroll
    for (int w = 0; w < 4; w += 2) {
      const float radius = sqrtf(-2.0f * logf(1.0f - unit(bits.word[w])));  // of a number in (0, 1]
      const SineCosine direction = sine_cosine(unit(bits.word[w + 1]));
      values[w] = fmaf(deviation, radius * direction.cosine, mean);
      values[w + 1] = fmaf(deviation, radius * direction.sine, mean);
    }
  }
};

/// Draws `groups` groups of eight counters, from the first of the block that holds the slice's first element.
template <class Make, class T>
__global__ void __launch_bounds__(kThreads)
    draw_kernel(Make make, T* x, Index n, std::uint64_t key, std::uint64_t first, Index groups) {
  constexpr int kGroups = static_cast<int>(kPhiloxLanes) / kPack;  // per block
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index g = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; g < groups; g += step) {
    const std::uint64_t block = first / kPhiloxBlock + static_cast<std::uint64_t>(g / kGroups);
    const std::uint64_t lane = static_cast<std::uint64_t>(g % kGroups) * kPack;
    float values[4][kPack];
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      float four[4];
      make(four, philox(block * kPhiloxLanes + lane + j, key));
#pragma unroll
      for (int w = 0; w < 4; ++w) values[w][j] = four[w];
    }
    const Index begin = static_cast<Index>(block * kPhiloxBlock + lane - first);  // may be before the slice
#pragma unroll
    for (int w = 0; w < 4; ++w) store_floats(x, begin + w * static_cast<Index>(kPhiloxLanes), n, values[w]);
  }
}

/// y = x · factor, or 0 where the draw is below p. y may be x, since a thread reads only what it writes.
template <class T>
__global__ void __launch_bounds__(kThreads) dropout_kernel(T* y, const T* x, Index n, float p, float factor,
                                                           std::uint64_t key, std::uint64_t first, Index groups) {
  for_drawn_packs(n, key, first, groups, [&](Index i, const std::uint32_t (&bits)[kPack]) {
    const Pack<T> pack = load(x, i, n);
    float values[kPack];
#pragma unroll
    for (int j = 0; j < kPack; ++j) values[j] = unit(bits[j]) < p ? 0.0f : widen(pack.at[j]) * factor;
    store_floats(y, i, n, values);
  });
}

/// Groups of eight counters whose blocks hold n elements from `first` on.
Index groups_of(std::uint64_t first, std::size_t n) {
  const std::uint64_t blocks = (first + n - 1) / kPhiloxBlock - first / kPhiloxBlock + 1;
  return static_cast<Index>(blocks * (kPhiloxLanes / kPack));
}

template <class Make>
void draw_all(const Queue& queue, Make make, Array x, Draw draw) {
  if (x.size == 0) return;
  const Index groups = groups_of(draw.first, x.size);
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(draw_kernel<Make, T>, grid_for(groups), dim3(kThreads), 0, queue.stream, make, x.as<T>(), size_of(x),
           draw.key, draw.first, groups);
  });
}

}  // namespace

void random_normal(const Queue& queue, Array x, Draw draw, float mean, float deviation) {
  draw_all(queue, Normal{mean, deviation}, x, draw);
}

void random_uniform(const Queue& queue, Array x, Draw draw, float low, float high, float largest) {
  draw_all(queue, Uniform{low, high - low, largest}, x, draw);
}

void dropout(const Queue& queue, Array y, Array x, Draw draw, float p) {
  const Index groups = groups_of(draw.first, x.size);
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(dropout_kernel<T>, grid_for(groups), dim3(kThreads), 0, queue.stream, y.as<T>(), x.as<const T>(), size_of(x),
           p, 1 / (1 - p), draw.key, draw.first, groups);
  });
}

}  // namespace lockstep::kernels
