// Exercise 22.5: mixed precision. Read labs/week22_zero/mixed_precision.hpp first.
//
// No line here knows whether a step is skipped: conditions are numbers on the device, and scale_if and adamw obey them
// there.
#include "labs/week22_zero/mixed_precision.hpp"

#include <fmt/format.h>

#include <cmath>

#include "common/arithmetic.hpp"
#include "common/support/text/storage.hpp"

namespace lockstep::week22 {

Precision precision_of(std::string_view name) {
  const DType type = parse_storage(name, "precision");
  return {DType::f32, type, type};
}

void apply_update(Rank me, Slice working, Slice master, Slice update) {
  // lab 22.5a begin: the sum in fp32, then a rounded copy of it
  add(me, master, update);
  cast(me, working, master);
  // lab end
}

void sum_in(Rank me, Slice data, DType reduce, const AllReduce& all_reduce) {
  // lab 22.5b begin: directly where the types agree; otherwise through a copy in the other type
  if (data.dtype() == reduce) return all_reduce(me, data);
  Slice copy = me.allocate(data.size(), reduce, Category::buffer);
  cast(me, copy, data);
  all_reduce(me, copy);
  cast(me, data, copy);
  // lab end
}

LossScaler make_loss_scaler(Rank me, float initial, int growth_interval) {
  int exponent = 0;
  if (!(initial > 0) || std::isinf(initial) || std::frexp(initial, &exponent) != 0.5f)
    usage_error(fmt::format("a loss scale of {}: it must be a power of two, so that scaling rounds nothing", initial));
  if (growth_interval < 1) usage_error(fmt::format("a loss scale that grows after {} steps", growth_interval));
  const auto scalar = [&](float value) {
    Slice slice = me.allocate(1, DType::f32, Category::buffer);
    fill(me, slice, value);
    return slice;
  };
  return {.scale = scalar(initial),
          .inverse = scalar(1 / initial),
          .overflow = scalar(0),
          .good_steps = scalar(0),
          .skipped = scalar(0),
          .one = scalar(1),
          .grow = scalar(0),
          .growth_interval = growth_interval};
}

void find_overflow_everywhere(Rank me, LossScaler& scaler, const std::vector<Slice>& gradients,
                              std::span<const Rank> groups, const AllReduce& all_reduce) {
  // lab 22.5c begin: scaler.overflow becomes 1 on all ranks of all groups if any of them has a gradient that is not
  // finite, else 0
  fill(me, scaler.overflow, 0);
  for (const Slice& gradient : gradients) find_overflow(me, scaler.overflow, gradient);
  for (const Rank& group : groups) all_reduce(group, scaler.overflow);
  at_least(me, scaler.overflow, scaler.overflow, 1);
  // lab end
}

void unscale(Rank me, const LossScaler& scaler, Slice factor, Slice squares, float max_norm) {
  // lab 22.5d begin: squares are scaled twice. Clipping needs the norm of the true gradients; its factor is applied to
  // scaled ones
  scale(me, squares, scaler.inverse);
  scale(me, squares, scaler.inverse);
  fill(me, factor, 1);
  if (max_norm > 0) clip_factor(me, factor, squares, max_norm);
  scale(me, factor, scaler.inverse);
  // lab end
}

void scaled_step(Rank me, Gpt& gpt, Optimizer& optimizer, LossScaler& scaler, StepScalars& scalars, StepOptions options,
                 std::span<const Rank> groups, const AllReduce& all_reduce) {
  const Slice gradients = gpt.parameters().gradients;
  // lab 22.5d begin: scalars.squares and the clipping are of the true gradients; an overflow on any rank skips the step
  // on all, which AdamW does by itself; the scale adapts; the next step's gradients begin with zeros
  find_overflow_everywhere(me, scaler, {gradients}, groups, all_reduce);
  fill(me, scalars.squares, 0);
  add_squares(me, scalars.squares, gradients);
  unscale(me, scaler, scalars.factor, scalars.squares, options.max_norm);
  optimizer.step(me, options.learning_rate, scalars.factor, scaler.overflow, scaler.skipped);
  update_scale(me, scaler);
  fill(me, gradients, 0);
  // lab end
}

void update_scale(Rank me, LossScaler& scaler) {
  // lab 22.5e begin: count; an overflow halves the scale (and doubles its inverse) and restarts the count; then, if
  // there are enough good steps, the scale doubles
  add(me, scaler.skipped, scaler.overflow);
  add(me, scaler.good_steps, scaler.one);
  scale_if(me, scaler.scale, 0.5f, scaler.overflow);
  scale_if(me, scaler.inverse, 2, scaler.overflow);
  scale_if(me, scaler.good_steps, 0, scaler.overflow);
  at_least(me, scaler.grow, scaler.good_steps, static_cast<float>(scaler.growth_interval));
  scale_if(me, scaler.scale, 2, scaler.grow);
  scale_if(me, scaler.inverse, 0.5f, scaler.grow);
  scale_if(me, scaler.good_steps, 0, scaler.grow);
  // lab end
}

}  // namespace lockstep::week22
