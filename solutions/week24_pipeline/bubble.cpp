// Exercise 24.6: the bubble. Read labs/week24_pipeline/bubble.hpp first.
#include "labs/week24_pipeline/bubble.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::week24 {

double bubble_of_ideal(const PipelineShape& shape) {
  // lab 24.6a begin: p − 1 idle steps against v·m
  return static_cast<double>(shape.stages - 1) / (shape.chunks * shape.microbatches);
  // lab end
}

double bubble_of_total(const PipelineShape& shape) {
  // lab 24.6a begin: p − 1 idle steps of v·m + p − 1
  return static_cast<double>(shape.stages - 1) / (shape.chunks * shape.microbatches + shape.stages - 1);
  // lab end
}

Bubble measured_bubble(const std::vector<StageUse>& stages) {
  Bubble bubble;
  for (const StageUse& stage : stages) {
    bubble.makespan = std::max(bubble.makespan, stage.end);
    bubble.longest_span = std::max(bubble.longest_span, stage.end - stage.begin);
  }
  // lab 24.6b begin: what would the run take if no stage ever waited? Then the three ratios
  double ideal = 0;
  for (const StageUse& stage : stages) ideal = std::max(ideal, stage.busy);
  bubble.of_ideal = (bubble.makespan - ideal) / ideal;
  bubble.of_total = (bubble.makespan - ideal) / bubble.makespan;
  bubble.of_span = (bubble.longest_span - ideal) / bubble.longest_span;
  return bubble;
  // lab end
}

}  // namespace lockstep::week24
