// The front end of AdamW: checks and costs; see arithmetic.cpp.
#include <utility>

#include "common/runtime/arithmetic_front.hpp"

namespace lockstep {

using namespace front;

namespace {

/// The operands of an AdamW step.
struct AdamWOperands {
  const Slice &parameter, &master, &m, &v, &gradient, &gradient_factor, &skip, &skipped;
};

void need_adamw(const char* name, const AdamWOperands& x, const AdamW& options, Location where) {
  const std::size_t count = x.master.size();
  need_size(name, "parameter", x.parameter, count, "as master", where);
  need_size(name, "m", x.m, count, "as master", where);
  need_size(name, "v", x.v, count, "as master", where);
  need_size(name, "gradient", x.gradient, count, "as master", where);
  for (const auto& [operand, slice] : {std::pair{"master", &x.master}, {"m", &x.m}, {"v", &x.v}})
    need_dtype(name, operand, *slice, DType::f32, where);
  need_floating(name, "parameter", x.parameter, where);
  need_floating(name, "gradient", x.gradient, where);
  for (const auto& [operand, slice] :
       {std::pair{"gradient_factor", &x.gradient_factor}, {"skip", &x.skip}, {"skipped", &x.skipped}})
    if (!slice->empty()) need_scalar(name, operand, *slice, where);
  if (options.step < 1) usage_error(fmt::format("{}: step {}, but steps count from 1", name, options.step), where);
  need_apart(name, "parameter", x.parameter, "master", x.master, where);
  need_distinct(name, "m", x.m, "v", x.v, where);
  need_distinct(name, "master", x.master, "gradient", x.gradient, where);
}

// FLOP per element: moments 7, step 5, decay 2.
Operation adamw_operation(const char* name, const AdamWOperands& x) {
  const bool separate =
      x.parameter.block() != x.master.block() || x.parameter.offset_bytes() != x.master.offset_bytes();
  return {name,
          14 * number(x.master.size()),
          2 * (bytes(x.master) + bytes(x.m) + bytes(x.v)) + bytes(x.gradient) + (separate ? bytes(x.parameter) : 0) +
              bytes(x.gradient_factor) + bytes(x.skip) + bytes(x.skipped),
          DType::f32,
          {&x.gradient, &x.gradient_factor, &x.skip, &x.skipped},
          {&x.parameter, &x.master, &x.m, &x.v}};
}

}  // namespace

void adamw(Rank me, Slice parameter, Slice master, Slice m, Slice v, Slice gradient, AdamW options,
           Slice gradient_factor, Slice skip, Slice skipped, Location where) {
  const AdamWOperands operands{parameter, master, m, v, gradient, gradient_factor, skip, skipped};
  need_adamw("adamw", operands, options, where);
  if (master.empty()) return;
  compute(me, adamw_operation("adamw", operands), where, [&](Device& device) {
    device.adamw(parameter, master, m, v, gradient, options, gradient_factor, skip, skipped);
  });
}

void adamw_pieces(Rank me, Slice parameter, Slice master, Slice m, Slice v, Slice gradient,
                  std::span<const AdamWPiece> pieces, AdamW options, Slice gradient_factor, Slice skip, Slice skipped,
                  Location where) {
  const AdamWOperands operands{parameter, master, m, v, gradient, gradient_factor, skip, skipped};
  need_adamw("adamw_pieces", operands, options, where);
  std::size_t count = 0;
  for (const AdamWPiece& piece : pieces) count += piece.count;
  need_size("adamw_pieces", "master", master, count, "in all pieces", where);
  if (master.empty()) return;
  if (!me.backend().fuses_pieces())
    return for_pieces(pieces, options, [&](std::size_t first, std::size_t size, const AdamW& own) {
      const auto cut = [&](const Slice& whole) { return whole.cut(first, size); };
      adamw(me, cut(parameter), cut(master), cut(m), cut(v), cut(gradient), own, gradient_factor, skip, skipped, where);
    });
  compute(me, adamw_operation("adamw_pieces", operands), where, [&](Device& device) {
    device.adamw_pieces(parameter, master, m, v, gradient, pieces, options, gradient_factor, skip, skipped);
  });
}

}  // namespace lockstep
