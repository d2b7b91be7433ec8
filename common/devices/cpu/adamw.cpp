// One AdamW step in one pass. Compiled without contraction into fused multiply-adds, so that the result for an element
// does not depend on its place in a slice: sharded optimizers are bit-identical to unsharded ones.
#include <cmath>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

constexpr std::size_t kGrain = 8 * kTile;

/// Constants of one step, computed once.
struct Step {
  float gradient_factor;
  float beta1, beta2;
  float decay;      // 1 − learning rate · weight decay
  float rate;       // learning rate / (1 − β1^step)
  float root_bias;  // 1 / √(1 − β2^step)
  float epsilon;
};

Step make_step(const AdamW& options, int steps, float gradient_factor) {
  const double bias1 = 1 - std::pow(static_cast<double>(options.beta1), steps);
  const double bias2 = 1 - std::pow(static_cast<double>(options.beta2), steps);
  return {gradient_factor,
          options.beta1,
          options.beta2,
          1.0f - options.learning_rate * options.weight_decay,
          static_cast<float>(options.learning_rate / bias1),
          static_cast<float>(1 / std::sqrt(bias2)),
          options.epsilon};
}

void step_tile(const Step& step, float* master, float* m, float* v, const float* gradient, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    const float g = gradient[i] * step.gradient_factor;
    m[i] = step.beta1 * m[i] + (1.0f - step.beta1) * g;
    v[i] = step.beta2 * v[i] + (1.0f - step.beta2) * (g * g);
    const float change = step.rate * m[i] / (std::sqrt(v[i]) * step.root_bias + step.epsilon);
    master[i] = master[i] * step.decay - change;
  }
}

}  // namespace

void CpuDevice::adamw(const Slice& parameter, const Slice& master, const Slice& m, const Slice& v,
                      const Slice& gradient, AdamW options, const Slice& gradient_factor, const Slice& skip,
                      const Slice& skipped) {
  if (!skip.empty() && *scalar(skip) != 0) return;
  const int steps = options.step - (skipped.empty() ? 0 : static_cast<int>(*scalar(skipped)));
  const Step step = make_step(options, steps, gradient_factor.empty() ? 1.0f : *scalar(gradient_factor));
  const View from(gradient), to(parameter);
  const bool separate = parameter.data() != master.data();
  threads_.chunks(master.size(), kGrain, [&](std::size_t first, std::size_t last) {
    for_tiles(first, last, [&](std::size_t i, std::size_t n) {
      float buffer[kTile];
      step_tile(step, scalar(master) + i, scalar(m) + i, scalar(v) + i, from.read(i, n, buffer), n);
      if (separate) to.write(i, n, scalar(master) + i);
    });
  });
}

}  // namespace lockstep::cpu
