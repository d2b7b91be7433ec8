// Exercise 24.6: the bubble, measured. Read labs/week24_pipeline/bubble.hpp first.
#include "labs/week24_pipeline/bubble.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::week24 {

Bubble measured_bubble(const std::vector<StageUse>& stages) {
  Bubble bubble;
  for (const StageUse& stage : stages) {
    bubble.makespan = std::max(bubble.makespan, stage.end);
    bubble.longest_span = std::max(bubble.longest_span, stage.end - stage.begin);
  }
  // lab 24.6 begin: what would the run take if no stage ever waited? Then the three ratios
  double ideal = 0;
  for (const StageUse& stage : stages) ideal = std::max(ideal, stage.busy);
  bubble.of_ideal = (bubble.makespan - ideal) / ideal;
  bubble.of_total = (bubble.makespan - ideal) / bubble.makespan;
  bubble.of_span = (bubble.longest_span - ideal) / bubble.longest_span;
  return bubble;
  // lab end
}

}  // namespace lockstep::week24
