// 24.2 as PyTorch's ScheduleGPipe has it: backwards in the order of the forwards. Of the bubble each convention
// from the other: i of the ideal is i/(1 + i) of the total.
#include "labs/week24_pipeline/gpipe.hpp"

namespace lockstep::week24 {

StageSchedule naive(const PipelineShape& shape, int) {
  StageSchedule steps;
  for (int m = 0; m < shape.microbatches; ++m)
    for (const Work work : {Work::forward, Work::backward}) steps.push_back({work, m});
  return steps;
}

StageSchedule gpipe(const PipelineShape& shape, int) {
  StageSchedule steps;
  for (const Work work : {Work::forward, Work::backward})
    for (int m = 0; m < shape.microbatches; ++m) steps.push_back({work, m});
  return steps;
}

double bubble_of_ideal(const PipelineShape& shape) {
  const double turns_of_a_chunk = 1.0 * shape.microbatches * shape.chunks;
  return (shape.stages - 1) / turns_of_a_chunk;
}

double bubble_of_total(const PipelineShape& shape) {
  const double ideal = bubble_of_ideal(shape);
  return ideal / (1 + ideal);
}

}  // namespace lockstep::week24
