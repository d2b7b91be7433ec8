// 24.2 by recursion: a microbatch goes forward, then all later ones go there and back, then it goes back.
#include "labs/week24_pipeline/gpipe.hpp"

namespace lockstep::week24 {
namespace {

void there_and_back(StageSchedule& steps, int microbatch, int end) {
  if (microbatch == end) return;
  steps.push_back({Work::forward, microbatch});
  there_and_back(steps, microbatch + 1, end);
  steps.push_back({Work::backward, microbatch});
}

}  // namespace

StageSchedule naive(const PipelineShape& shape, int) {
  StageSchedule steps;
  for (int m = 0; m < shape.microbatches; ++m) there_and_back(steps, m, m + 1);
  return steps;
}

StageSchedule gpipe(const PipelineShape& shape, int) {
  StageSchedule steps;
  there_and_back(steps, 0, shape.microbatches);
  return steps;
}

}  // namespace lockstep::week24
