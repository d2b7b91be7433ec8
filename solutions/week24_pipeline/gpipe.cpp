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
  // lab 24.2a begin: all forwards in order, then all backwards from the last to the first
  for (int m = 0; m < shape.microbatches; ++m) steps.push_back({Work::forward, m});
  for (int m = shape.microbatches; m-- > 0;) steps.push_back({Work::backward, m});
  // lab end
  return steps;
}

double bubble_of_ideal(const PipelineShape& shape) {
  // lab 24.2b begin: p − 1 idle steps against v·m
  return static_cast<double>(shape.stages - 1) / (shape.chunks * shape.microbatches);
  // lab end
}

double bubble_of_total(const PipelineShape& shape) {
  // lab 24.2b begin: p − 1 idle steps of v·m + p − 1
  return static_cast<double>(shape.stages - 1) / (shape.chunks * shape.microbatches + shape.stages - 1);
  // lab end
}

}  // namespace lockstep::week24
