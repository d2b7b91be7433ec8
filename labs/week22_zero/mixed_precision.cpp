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
  todo("22.5a", "the sum in fp32, then a rounded copy of it");
}

void sum_in(Rank me, Slice data, DType reduce, const AllReduce& all_reduce) {
  todo("22.5b", "directly where the types agree; otherwise through a copy in the other type");
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
  todo("22.5c",
       "scaler.overflow becomes 1 on all ranks of all groups if any of them has a gradient that is not finite, else "
       "0");
}

void unscale(Rank me, const LossScaler& scaler, Slice factor, Slice squares, float max_norm) {
  todo("22.5d",
       "squares are scaled twice. Clipping needs the norm of the true gradients; its factor is applied to scaled "
       "ones");
}

void scaled_step(Rank me, Gpt& gpt, Optimizer& optimizer, LossScaler& scaler, StepScalars& scalars, StepOptions options,
                 std::span<const Rank> groups, const AllReduce& all_reduce) {
  const Slice gradients = gpt.parameters().gradients;
  todo("22.5d",
       "scalars.squares and the clipping are of the true gradients; an overflow on any rank skips the step on all, "
       "which AdamW does by itself; the scale adapts; the next step's gradients begin with zeros");
}

void update_scale(Rank me, LossScaler& scaler) {
  todo("22.5e",
       "count; an overflow halves the scale (and doubles its inverse) and restarts the count; then, if there are "
       "enough good steps, the scale doubles");
}

}  // namespace lockstep::week22
