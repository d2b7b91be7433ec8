// Exercise 24.2: GPipe and its bubble. Read labs/week24_pipeline/gpipe.hpp first.
#include "labs/week24_pipeline/gpipe.hpp"

#include "common/error.hpp"

namespace lockstep::week24 {

StageSchedule naive(const PipelineShape& shape, int) {
  StageSchedule steps;
  for (int m = 0; m < shape.microbatches; ++m) {
    steps.push_back({Work::forward, m});
    steps.push_back({Work::backward, m});
  }
  return steps;
}

StageSchedule gpipe(const PipelineShape& shape, int) {
  StageSchedule steps;
  todo("24.2a", "all forwards in order, then all backwards from the last to the first");
  return steps;
}

double bubble_of_ideal(const PipelineShape& shape) {
  todo("24.2b", "p − 1 idle steps against v·m");
}

double bubble_of_total(const PipelineShape& shape) {
  todo("24.2b", "p − 1 idle steps of v·m + p − 1");
}

}  // namespace lockstep::week24
