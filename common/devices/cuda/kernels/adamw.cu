// One AdamW step in one pass, over all tensors of a rank. A table among the kernel's parameters says which of them
// decay; each thread searches it while its loads are in flight. Compiled without contraction into fused multiply-adds,
// like the CPU's: both are bit-identical, and the result for an element does not depend on its place in a slice.
#include "common/devices/cuda/kernels/elements.cuh"
#include "common/devices/cuda/kernels/operations.hpp"

namespace lockstep::kernels {

namespace {

struct Corrections {
  float rate;       // learning rate / (1 − β1^step)
  float root_bias;  // 1 / √(1 − β2^step)
};

/// base^exponent by multiplications only, which are bit-identical on host and GPU.
__host__ __device__ double power(double base, int exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 == 1) result *= base;
  return result;
}

__host__ __device__ Corrections corrections_of(const AdamWStep& step, int steps) {
  const double bias1 = 1 - power(step.beta1, steps), bias2 = 1 - power(step.beta2, steps);
  return {static_cast<float>(step.learning_rate / bias1), static_cast<float>(1 / sqrt(bias2))};
}

/// Corrections that depend on the number of skipped steps, which only the GPU knows.
__global__ void corrections_kernel(Corrections* corrections, AdamWStep step, const float* skipped) {
  *corrections = corrections_of(step, step.step - static_cast<int>(*skipped));
}

struct Optional {
  const float* gradient_factor;    // null for 1
  const float* skip;               // null for 0
  const Corrections* corrections;  // null if passed by value
};

constexpr int kEach = kPackOf<float>;  // elements per thread and iteration
constexpr int kMostPieces = 256;       // 2304 bytes of the 4 KiB of kernel parameters that every GPU allows

/// Pieces that decay or do not: piece p begins where the one before ends, and ends at ends[p].
struct Pieces {
  Index ends[kMostPieces];
  bool decays[kMostPieces];
  int count;

  /// The piece that contains element i; the first or last one for elements outside all pieces.
  __device__ int of(Index i) const {
    int first = 0, last = count - 1;
    while (first < last) {
      const int middle = (first + last) / 2;
      if (i < ends[middle])
        last = middle;
      else
        first = middle + 1;
    }
    return first;
  }
};

/// `parameter.data` is null if the master is the parameter.
template <class G>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(Array parameter, float* master, float* m, float* v, const G* gradient, AdamWStep step,
                 Corrections given, Optional optional, PacksOf<kEach> packs, const __grid_constant__ Pieces pieces) {
  if (optional.skip && *optional.skip != 0.0f) return;
  const Corrections c = optional.corrections ? *optional.corrections : given;
  const float decay = 1.0f - step.learning_rate * step.weight_decay;
  const float factor = optional.gradient_factor ? *optional.gradient_factor : 1.0f;
  for_packs(packs, [&](Index i) {
    const Pack<G, kEach> gradients = load<kEach>(gradient, i, packs.n);
    Pack<float, kEach> masters = load<kEach>(master, i, packs.n);
    Pack<float, kEach> ms = load<kEach>(m, i, packs.n), vs = load<kEach>(v, i, packs.n);
    int piece = pieces.of(i);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      while (i + j >= pieces.ends[piece] && piece + 1 < pieces.count) ++piece;
      const float g = widen(gradients.at[j]) * factor;
      ms.at[j] = step.beta1 * ms.at[j] + (1.0f - step.beta1) * g;
      vs.at[j] = step.beta2 * vs.at[j] + (1.0f - step.beta2) * (g * g);
      const float change = c.rate * ms.at[j] / (sqrtf(vs.at[j]) * c.root_bias + step.epsilon);
      masters.at[j] = masters.at[j] * (pieces.decays[piece] ? decay : 1.0f) - change;
    }
    store(m, i, packs.n, ms);
    store(v, i, packs.n, vs);
    store(master, i, packs.n, masters);
    if (parameter.data) store_floats(parameter, i, packs.n, masters.at);
  });
}

/// Elements [first, first + count) of x.
Array part(const Array& x, Index first, Index count) {
  const Index bytes = static_cast<Index>(bytes_of(x.dtype));
  return {static_cast<char*>(x.data) + first * bytes, static_cast<std::size_t>(count), x.dtype};
}

/// Updates the elements of `pieces`, starting at element `first`.
void step_pieces(const Queue& queue, const AdamWArrays& x, Index first, const Pieces& pieces, AdamWStep step,
                 const Corrections* corrections) {
  const Index count = pieces.count > 0 ? pieces.ends[pieces.count - 1] : 0;
  if (count == 0) return;
  const auto own = [&](const Array& whole) { return part(whole, first, count); };
  const Array master = own(x.master);
  const PacksOf<kEach> packs(master.as<float>(), count);
  const Array parameter = x.parameter.data == x.master.data ? Array{} : own(x.parameter);
  const Optional optional{x.gradient_factor.size != 0 ? x.gradient_factor.as<const float>() : nullptr,
                          x.skip.size != 0 ? x.skip.as<const float>() : nullptr, corrections};
  with_type(x.gradient.dtype, [&](auto type) {
    using G = typename decltype(type)::type;
    launch(adamw_kernel<G>, grid_for(packs.count()), dim3(kThreads), 0, queue.stream, parameter, master.as<float>(),
           own(x.m).as<float>(), own(x.v).as<float>(), own(x.gradient).template as<const G>(), step,
           corrections_of(step, step.step), optional, packs, pieces);
  });
}

}  // namespace

void adamw(const Queue& queue, const AdamWArrays& arrays, const AdamWPiece* pieces, std::size_t count, AdamWStep step) {
  if (arrays.master.size == 0) return;
  Corrections* corrections = nullptr;
  if (arrays.skipped.size != 0) {
    corrections = static_cast<Corrections*>(queue.workspace.take(sizeof(Corrections)));
    launch(corrections_kernel, dim3(1), dim3(1), 0, queue.stream, corrections, step, arrays.skipped.as<const float>());
  }
  Index first = 0;
  for (std::size_t begin = 0; begin < count; begin += kMostPieces) {
    Pieces table{};
    Index end = 0;
    for (std::size_t p = begin; p < count && table.count < kMostPieces; ++p, ++table.count) {
      table.ends[table.count] = end += pieces[p].count;
      table.decays[table.count] = pieces[p].decays;
    }
    step_pieces(queue, arrays, first, table, step, corrections);
    first += end;
  }
}

}  // namespace lockstep::kernels
