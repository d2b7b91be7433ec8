#include "common/gpt/model/optimizer.hpp"

#include <algorithm>

namespace lockstep {

std::vector<AdamWPiece> Optimizer::pieces_of(const Parameters& parameters, Range range) {
  std::vector<AdamWPiece> pieces;
  const std::size_t end = range.first + range.count;
  for (const Parameter& parameter : parameters.list) {
    const std::size_t from = std::max(parameter.offset, range.first);
    const std::size_t to = std::min(parameter.offset + parameter.size, end);
    if (from >= to) continue;
    const bool decays = parameter.rows > 1;
    if (!pieces.empty() && pieces.back().decays == decays)
      pieces.back().count += to - from;
    else
      pieces.push_back({to - from, decays});
  }
  return pieces;
}

Optimizer::Optimizer(Rank me, const Parameters& parameters, AdamW options, std::optional<Range> range, Location where)
    : options_(options) {
  const Range mine = range.value_or(Range{0, parameters.count()});
  pieces_ = pieces_of(parameters, mine);
  values_ = parameters.values.cut(mine.first, mine.count, where);
  gradients_ = parameters.gradients.cut(mine.first, mine.count, where);
  m_ = me.allocate(mine.count, DType::f32, Category::optimizer, where);
  v_ = me.allocate(mine.count, DType::f32, Category::optimizer, where);
  fill(me, m_, 0, where);
  fill(me, v_, 0, where);
  if (values_.dtype() == DType::f32) {
    master_ = values_;
  } else {
    master_ = me.allocate(mine.count, DType::f32, Category::optimizer, where);
    cast(me, master_, values_, where);
  }
}

void Optimizer::step(Rank me, float learning_rate, Slice gradient_factor, Slice skip, Slice skipped, Location where) {
  auto phase = me.region("optimizer", kPhase, where);
  ++steps_;
  AdamW options = options_;
  options.learning_rate = learning_rate;
  options.step = steps_;
  adamw_pieces(me, values_, master_, m_, v_, gradients_, pieces_, options, gradient_factor, skip, skipped, where);
}

void Optimizer::resume(Rank me, int steps, Location where) {
  steps_ = steps;
  if (values_.dtype() != DType::f32) cast(me, values_, master_, where);
}

void clip(Rank me, Slice factor, Slice sum, Slice gradients, float max_norm, Location where) {
  fill(me, sum, 0, where);
  add_squares(me, sum, gradients, where);
  clip_factor(me, factor, sum, max_norm, where);
}

}  // namespace lockstep
