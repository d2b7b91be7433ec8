// Exercise 21.12 in another way: the parameters are averaged, and the average is what one subtracts; the velocity is
// kept as the papers write it, with a scratch array for the look-ahead; both functions of part c share one.
#include "labs/week21_data_parallel/local_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

void outer_gradient(Rank dp, Slice values, Slice start, const AllReduce& all_reduce) {
  all_reduce(dp, values);
  scale(dp, values, -1.0f / static_cast<float>(dp.size()));
  add(dp, values, start);
}

void outer_step(Rank dp, Slice values, Slice start, Slice velocity, const OuterSgd& how) {
  if (!velocity.empty()) {
    scale(dp, velocity, how.momentum);
    add(dp, velocity, values);
    Slice ahead = dp.allocate(values.size(), DType::f32, Category::buffer);
    copy(dp, ahead, velocity);
    if (how.nesterov) {
      scale(dp, ahead, how.momentum);
      add(dp, ahead, values);
    }
    copy(dp, values, ahead);
  }
  scale(dp, values, -how.learning_rate);
  add(dp, values, start);
  copy(dp, start, values);
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
  local_steps_ = 0;
}

void LocalSgd::step_done() {
  ++local_steps_;
  if (local_steps_ % how_.every == 0) finish();
}

void LocalSgd::finish() {
  if (local_steps_ > 0) outer();
}

double local_sgd_bytes(const OuterSgd& how, int ranks, double elements) {
  const double all_reduces = 1.0 / how.every, halves = 2 * 4 * elements;
  return all_reduces * (halves - halves / ranks);
}

double local_sgd_seconds(const OuterSgd& how, const CostModel& link, int ranks, double elements,
                         double compute_seconds) {
  return compute_seconds + ring_all_reduce_seconds(link, ranks, 4 * elements) / how.every;
}

int least_every(const CostModel& link, int ranks, double elements, double compute_seconds, double share) {
  const auto enough = [&](int steps) {
    const double all = local_sgd_seconds({.every = steps}, link, ranks, elements, compute_seconds);
    return all - compute_seconds <= share * all;
  };
  int high = 1;
  while (!enough(high)) high *= 2;
  int low = high / 2;  // not enough, or 0
  while (high - low > 1) (enough(low + (high - low) / 2) ? high : low) = low + (high - low) / 2;
  return high;
}

}  // namespace lockstep::week21
