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

void check_adamw(const Call& call, const AdamWOperands& x, const AdamW& options) {
  for (const Operand& operand : {Operand{"parameter", x.parameter}, {"m", x.m}, {"v", x.v}, {"gradient", x.gradient}})
    call.size(operand, x.master.size(), "as master");
  for (const Operand& operand : {Operand{"master", x.master}, {"m", x.m}, {"v", x.v}}) call.dtype(operand, DType::f32);
  call.floating({{"parameter", x.parameter}, {"gradient", x.gradient}});
  for (const Operand& operand :
       {Operand{"gradient_factor", x.gradient_factor}, {"skip", x.skip}, {"skipped", x.skipped}})
    if (!operand.slice.empty()) call.scalar({operand});
  if (options.step < 1) call.refuse(fmt::format("step {}, but steps count from 1", options.step));
  call.apart({"parameter", x.parameter}, {{"master", x.master}});
  call.distinct({"m", x.m}, {{"v", x.v}});
  call.distinct({"master", x.master}, {{"gradient", x.gradient}});
}

// FLOP per element: moments 7, step 5, decay 2. Where the parameters are the master values, they move only once.
template <class F>
void step_adamw(const Call& call, const AdamWOperands& x, const F& f) {
  const bool separate =
      x.parameter.block() != x.master.block() || x.parameter.offset_bytes() != x.master.offset_bytes();
  const double updated = bytes(x.master) + bytes(x.m) + bytes(x.v) - (separate ? 0 : bytes(x.parameter));
  call.compute({14 * number(x.master.size()), DType::f32, updated},
               {&x.gradient, &x.gradient_factor, &x.skip, &x.skipped}, {&x.parameter, &x.master, &x.m, &x.v}, f);
}

}  // namespace

void adamw(Rank me, Slice parameter, Slice master, Slice m, Slice v, Slice gradient, AdamW options,
           Slice gradient_factor, Slice skip, Slice skipped, Location where) {
  const AdamWOperands operands{parameter, master, m, v, gradient, gradient_factor, skip, skipped};
  const Call call(me, "adamw", where);
  check_adamw(call, operands, options);
  if (master.empty()) return;
  step_adamw(call, operands, [&](Device& device) {
    device.adamw(parameter, master, m, v, gradient, options, gradient_factor, skip, skipped);
  });
}

void adamw_pieces(Rank me, Slice parameter, Slice master, Slice m, Slice v, Slice gradient,
                  std::span<const AdamWPiece> pieces, AdamW options, Slice gradient_factor, Slice skip, Slice skipped,
                  Location where) {
  const AdamWOperands operands{parameter, master, m, v, gradient, gradient_factor, skip, skipped};
  const Call call(me, "adamw_pieces", where);
  check_adamw(call, operands, options);
  std::size_t count = 0;
  for (const AdamWPiece& piece : pieces) count += piece.count;
  call.size({"master", master}, count, "in all pieces");
  if (master.empty()) return;
  if (!me.backend().fuses_pieces())
    return for_pieces(pieces, options, [&](std::size_t first, std::size_t size, const AdamW& own) {
      const auto cut = [&](const Slice& whole) { return whole.cut(first, size); };
      adamw(me, cut(parameter), cut(master), cut(m), cut(v), cut(gradient), own, gradient_factor, skip, skipped, where);
    });
  step_adamw(call, operands, [&](Device& device) {
    device.adamw_pieces(parameter, master, m, v, gradient, pieces, options, gradient_factor, skip, skipped);
  });
}

}  // namespace lockstep
