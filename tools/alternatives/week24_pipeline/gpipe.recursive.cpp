// 24.2 by recursion: a microbatch goes forward, then all later ones go there and back, then it goes back. The
// turns of the bubble are counted.
#include "labs/week24_pipeline/gpipe.hpp"

namespace lockstep::week24 {
namespace {

struct Turns {
  int work = 0, idle = 0;
  double idle_of(int all) const { return all == 0 ? 0 : static_cast<double>(idle) / all; }
};

Turns turns_of(const PipelineShape& shape) {
  Turns turns;
  for (int m = 0; m < shape.microbatches; ++m) turns.work += shape.chunks;
  for (int stage = 1; stage < shape.stages; ++stage) ++turns.idle;
  return turns;
}

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

double bubble_of_ideal(const PipelineShape& shape) {
  const Turns turns = turns_of(shape);
  return turns.idle_of(turns.work);
}

double bubble_of_total(const PipelineShape& shape) {
  const Turns turns = turns_of(shape);
  return turns.idle_of(turns.work + turns.idle);
}

}  // namespace lockstep::week24
