// 24.2 as PyTorch's ScheduleGPipe has it: backwards in the order of the forwards.
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

}  // namespace lockstep::week24
