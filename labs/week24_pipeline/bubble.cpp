// Exercise 24.6: the bubble. Read labs/week24_pipeline/bubble.hpp first.
#include "labs/week24_pipeline/bubble.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::week24 {

double bubble_of_ideal(const PipelineShape& shape) {
  todo("24.6a", "p − 1 idle steps against v·m");
}

double bubble_of_total(const PipelineShape& shape) {
  todo("24.6a", "p − 1 idle steps of v·m + p − 1");
}

Bubble measured_bubble(const std::vector<StageUse>& stages) {
  Bubble bubble;
  todo("24.6b",
       "the ideal time is the busiest stage's work; makespan and longest span are maxima over the stages; then the "
       "three ratios");
}

}  // namespace lockstep::week24
