// Exercise 21.12: local SGD and DiLoCo. Read labs/week21_data_parallel/local_sgd.hpp first.
//
// average (21.7a) sums over the ranks and divides by p; ring_all_reduce_seconds (21.5) prices that sum.
#include "labs/week21_data_parallel/local_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

void outer_gradient(Rank dp, Slice values, Slice start, const AllReduce& all_reduce) {
  Scope scope = dp.region("outer_gradient", values.bytes());
  // lab 21.12a begin: `values` becomes how far this rank has moved from `start`, with the sign of a gradient: a step
  // against it leads to where the rank is now. Then average it over the ranks
  scale(dp, values, -1);
  add(dp, values, start);
  average(dp, values, all_reduce);
  // lab end
}

void outer_step(Rank dp, Slice values, Slice start, Slice velocity, const OuterSgd& how) {
  const float rate = how.learning_rate, momentum = how.momentum;
  // lab 21.12b begin: turn `values` from the outer gradient into the direction of the step (the contract's formulas),
  // keep in `velocity` what the next step needs, and move `start`. There is no a·x + y: scale, then add. Without
  // momentum the direction is the gradient
  if (momentum > 0) {
    add(dp, velocity, values);  // what is kept is μ·v
    if (!how.nesterov) copy(dp, values, velocity);
    scale(dp, velocity, momentum);
    if (how.nesterov) add(dp, values, velocity);
  }
  scale(dp, values, -rate);
  add(dp, start, values);
  copy(dp, values, start);
  // lab end
}

LocalSgd::LocalSgd(Rank dp, Slice values, OuterSgd how, AllReduce all_reduce)
    : dp_(dp), values_(std::move(values)), how_(how), all_reduce_(std::move(all_reduce)) {
  if (how.every < 1) usage_error("an outer step follows at least one local step");
  if (values_.dtype() != DType::f32) usage_error("local SGD wants parameters in f32");
  broadcast_values(dp, values_);
  start_ = dp.allocate(values_.size(), DType::f32, Category::optimizer);
  copy(dp, start_, values_);
  if (how.momentum == 0) return;
  velocity_ = dp.allocate(values_.size(), DType::f32, Category::optimizer);
  fill(dp, velocity_, 0);
}

void LocalSgd::outer() {
  outer_gradient(dp_, values_, start_, all_reduce_);
  outer_step(dp_, values_, start_, velocity_, how_);
}

void LocalSgd::step_done() {
  // lab 21.12c begin: count the local steps (local_steps_); the H-th since the last outer step triggers the next one
  if (++local_steps_ < how_.every) return;
  local_steps_ = 0;
  outer();
  // lab end
}

void LocalSgd::finish() {
  // lab 21.12c begin: an outer step if there were local steps since the last one; otherwise nothing
  if (local_steps_ == 0) return;
  local_steps_ = 0;
  outer();
  // lab end
}

double local_sgd_bytes(const OuterSgd& how, int ranks, double elements) {
  const double p = ranks;
  // lab 21.12d begin: a ring's bytes for the whole array, shared by H steps
  return 2 * (p - 1) / p * 4 * elements / how.every;
  // lab end
}

double local_sgd_seconds(const OuterSgd& how, const CostModel& link, int ranks, double elements,
                         double compute_seconds) {
  return compute_seconds + ring_all_reduce_seconds(link, ranks, 4 * elements) / how.every;
}

int least_every(const CostModel& link, int ranks, double elements, double compute_seconds, double share) {
  const double seconds = ring_all_reduce_seconds(link, ranks, 4 * elements);
  // lab 21.12d begin: of H local steps and one outer step, `seconds` are communication: at most `share` of them all.
  // Solve for H, round so that it still holds, and mind that H is at least 1
  const double least = std::ceil(seconds * (1 - share) / (share * compute_seconds));
  return std::max(1, static_cast<int>(least));
  // lab end
}

}  // namespace lockstep::week21
