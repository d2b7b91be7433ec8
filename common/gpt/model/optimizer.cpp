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

Optimizer::Optimizer(Rank me, const Parameters& parameters, AdamW options, std::optional<Range> range)
    : options_(options) {
  const Range mine = range.value_or(Range{0, parameters.count()});
  pieces_ = pieces_of(parameters, mine);
  values_ = parameters.values.cut(mine.first, mine.count);
  gradients_ = parameters.gradients.cut(mine.first, mine.count);
  m_ = me.allocate(mine.count, DType::f32, Category::optimizer);
  v_ = me.allocate(mine.count, DType::f32, Category::optimizer);
  fill(me, m_, 0);
  fill(me, v_, 0);
  if (values_.dtype() == DType::f32) {
    master_ = values_;
  } else {
    master_ = me.allocate(mine.count, DType::f32, Category::optimizer);
    cast(me, master_, values_);
  }
}

void Optimizer::step(Rank me, float learning_rate, Slice gradient_factor, Slice skip, Slice skipped) {
  auto phase = me.region("optimizer");
  ++steps_;
  AdamW options = options_;
  options.learning_rate = learning_rate;
  options.step = steps_;
  adamw_pieces(me, values_, master_, m_, v_, gradients_, pieces_, options, gradient_factor, skip, skipped);
}

void Optimizer::resume(Rank me, int steps) {
  steps_ = steps;
  if (values_.dtype() != DType::f32) cast(me, values_, master_);
}

void clip(Rank me, Slice factor, Slice sum, Slice gradients, float max_norm) {
  fill(me, sum, 0);
  add_squares(me, sum, gradients);
  clip_factor(me, factor, sum, max_norm);
}

}  // namespace lockstep
