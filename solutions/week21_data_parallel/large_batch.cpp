// Exercise 21.8: the learning rate of a larger batch. Read labs/week21_data_parallel/large_batch.hpp first.
#include "labs/week21_data_parallel/large_batch.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/error.hpp"

namespace lockstep::week21 {

double scaled_rate(RateRule rule, double rate, std::size_t base_batch, std::size_t batch) {
  const double k = static_cast<double>(batch) / static_cast<double>(base_batch);  // given
  // lab 21.8 begin: how much further must one step go than a step of the base batch? One answer for each rule
  switch (rule) {
    case RateRule::none: return rate;
    case RateRule::linear: return rate * k;
    case RateRule::square_root: return rate * std::sqrt(k);
  }
  usage_error("no such rule");
  // lab end
}

double rate_at(const RateSchedule& schedule, int step) {
  const double length = std::max(1, schedule.steps - schedule.warmup);       // of the cosine, in steps
  const double done = std::min(1.0, (step - schedule.warmup) / length);      // the part of it that is over
  const double fall = 0.1 + 0.45 * (1 + std::cos(std::numbers::pi * done));  // from 1 to 0.1
  // lab 21.8 begin: during warm-up, equal increments from first to peak, which its last step reaches; then the peak,
  // times `fall`
  if (step >= schedule.warmup) return schedule.peak * fall;
  return schedule.first + (schedule.peak - schedule.first) * (step + 1) / schedule.warmup;
  // lab end
}

RateSchedule schedule_for_batch(const RateSchedule& base, std::size_t base_batch, std::size_t batch, RateRule rule,
                                int warmup) {
  const std::size_t samples = static_cast<std::size_t>(base.steps) * base_batch;
  const double peak = scaled_rate(rule, base.peak, base_batch, batch);
  return {.first = std::min(base.peak, peak),
          .peak = peak,
          .warmup = warmup,
          .steps = static_cast<int>((samples + batch - 1) / batch)};
}

}  // namespace lockstep::week21
