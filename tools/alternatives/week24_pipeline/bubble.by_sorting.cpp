// 24.6 by sorting, and each convention from the other: i of the ideal is i/(1 + i) of the total.
#include "labs/week24_pipeline/bubble.hpp"

#include <algorithm>

namespace lockstep::week24 {
namespace {

template <class Value>
double largest(std::vector<StageUse> stages, const Value& value) {
  std::sort(stages.begin(), stages.end(), [&](const StageUse& a, const StageUse& b) { return value(a) > value(b); });
  return value(stages.front());
}

}  // namespace

double bubble_of_ideal(const PipelineShape& shape) {
  const double turns_of_a_chunk = 1.0 * shape.microbatches * shape.chunks;
  return (shape.stages - 1) / turns_of_a_chunk;
}

double bubble_of_total(const PipelineShape& shape) {
  const double ideal = bubble_of_ideal(shape);
  return ideal / (1 + ideal);
}

Bubble measured_bubble(const std::vector<StageUse>& stages) {
  const double ideal = largest(stages, [](const StageUse& stage) { return stage.busy; });
  Bubble bubble;
  bubble.makespan = largest(stages, [](const StageUse& stage) { return stage.end; });
  bubble.longest_span = largest(stages, [](const StageUse& stage) { return stage.end - stage.begin; });
  bubble.of_ideal = bubble.makespan / ideal - 1;
  bubble.of_total = 1 - ideal / bubble.makespan;
  bubble.of_span = 1 - ideal / bubble.longest_span;
  return bubble;
}

}  // namespace lockstep::week24
