// Exercise 21.8: the learning rate of a larger batch. More ranks with the same batch each make a larger global batch,
// and so fewer steps for the same samples: each of them has to go further.
//
// Follows Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", arXiv 1706.02677, sections 2.1
// and 2.2; the square root for adaptive optimizers: Malladi et al., arXiv 2205.10287. ./lab train uses it.
#pragma once

#include <cstddef>

namespace lockstep::week21 {

/// Growth of the rate when the batch grows k times.
enum class RateRule {
  none,         ///< not at all
  linear,       ///< k times: k small steps are nearly one large step, as long as the gradient hardly changes meanwhile
  square_root,  ///< √k times: keeps the noise that a step adds, which matters where Adam divides by it
};

/// The rate for batches of `batch` samples, larger or smaller, where `rate` is right for batches of `base_batch` ≥ 1.
double scaled_rate(RateRule rule, double rate, std::size_t base_batch, std::size_t batch);

/// Warm-up, then half a cosine.
struct RateSchedule {
  double first = 0;  ///< where warm-up begins: the last rate that a step before step 0 would have had
  double peak = 0;   ///< the rate of the last step of warm-up, and without warm-up that of step 0
  int warmup = 0;    ///< steps of it
  int steps = 1;     ///< of the whole run
};

/// The rate of step `step`, which counts from 0. During warm-up it moves from `first` to `peak` by the same amount each
/// step; then it falls as half a cosine, from `peak` in step `warmup` to peak / 10 in step `steps` and all after it.
double rate_at(const RateSchedule& schedule, int step);

/// Given: the schedule that sees the samples of `base`, whose batches are of `base_batch`, in batches of `batch`: as
/// many steps as that takes (a last one may need a few samples more), the rate scaled by `rule`, and `warmup` steps
/// that begin at base.peak, which is known to be safe, or at the new peak where that is lower.
RateSchedule schedule_for_batch(const RateSchedule& base, std::size_t base_batch, std::size_t batch, RateRule rule,
                                int warmup);

}  // namespace lockstep::week21
