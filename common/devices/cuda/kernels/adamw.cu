// One AdamW step in one pass. Compiled without contraction into fused multiply-adds, like the CPU's: both give the same
// bits, and an element gets the same bits wherever it lies in a slice.
#include "common/devices/cuda/kernels/elements.cuh"
#include "common/devices/cuda/kernels/operations.hpp"

namespace lockstep::kernels {

namespace {

struct Corrections {
  float rate;       // learning rate / (1 − β1^step)
  float root_bias;  // 1 / √(1 − β2^step)
};

/// By multiplications only, which give the same bits on the host and on the GPU.
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

/// What only the GPU knows: how many steps were skipped.
__global__ void corrections_kernel(Corrections* corrections, AdamWStep step, const float* skipped) {
  *corrections = corrections_of(step, step.step - static_cast<int>(*skipped));
}

struct Optional {
  const float* gradient_factor;    // null for 1
  const float* skip;               // null for 0
  const Corrections* corrections;  // null for those given by value
};

constexpr int kEach = kPackOf<float>;  // elements of a thread and turn

/// `parameter.data` is null where the master is the parameter.
template <class G>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(Array parameter, float* master, float* m, float* v, const G* gradient, AdamWStep step,
                 Corrections given, Optional optional, PacksOf<kEach> packs) {
  if (optional.skip && *optional.skip != 0.0f) return;
  const Corrections c = optional.corrections ? *optional.corrections : given;
  const float decay = 1.0f - step.learning_rate * step.weight_decay;
  const float factor = optional.gradient_factor ? *optional.gradient_factor : 1.0f;
  for_packs(packs, [&](Index i) {
    const Pack<G, kEach> gradients = load<kEach>(gradient, i, packs.n);
    Pack<float, kEach> masters = load<kEach>(master, i, packs.n);
    Pack<float, kEach> ms = load<kEach>(m, i, packs.n), vs = load<kEach>(v, i, packs.n);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const float g = widen(gradients.at[j]) * factor;
      ms.at[j] = step.beta1 * ms.at[j] + (1.0f - step.beta1) * g;
      vs.at[j] = step.beta2 * vs.at[j] + (1.0f - step.beta2) * (g * g);
      const float change = c.rate * ms.at[j] / (sqrtf(vs.at[j]) * c.root_bias + step.epsilon);
      masters.at[j] = masters.at[j] * decay - change;
    }
    store(m, i, packs.n, ms);
    store(v, i, packs.n, vs);
    store(master, i, packs.n, masters);
    if (parameter.data) store_floats(parameter, i, packs.n, masters.at);
  });
}

}  // namespace

void adamw(const Queue& queue, Array parameter, Array master, Array m, Array v, Array gradient, AdamWStep step,
           Array gradient_factor, Array skip, Array skipped) {
  const PacksOf<kEach> packs(master.as<float>(), size_of(master));
  if (packs.n == 0) return;
  if (parameter.data == master.data) parameter.data = nullptr;
  Corrections* corrections = nullptr;
  if (skipped.size != 0) {
    corrections = static_cast<Corrections*>(queue.workspace.take(sizeof(Corrections)));
    launch(corrections_kernel, dim3(1), dim3(1), 0, queue.stream, corrections, step, skipped.as<const float>());
  }
  const Optional optional{gradient_factor.size != 0 ? gradient_factor.as<const float>() : nullptr,
                          skip.size != 0 ? skip.as<const float>() : nullptr, corrections};
  with_type(gradient.dtype, [&](auto type) {
    using G = typename decltype(type)::type;
    launch(adamw_kernel<G>, grid_for(packs.count()), dim3(kThreads), 0, queue.stream, parameter, master.as<float>(),
           m.as<float>(), v.as<float>(), gradient.as<const G>(), step, corrections_of(step, step.step), optional,
           packs);
  });
}

}  // namespace lockstep::kernels
