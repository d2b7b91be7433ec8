// 24.6 with the turns counted, and maxima kept by comparing.
#include "labs/week24_pipeline/bubble.hpp"

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

void keep(double& most, double value) {
  if (value > most) most = value;
}

}  // namespace

double bubble_of_ideal(const PipelineShape& shape) {
  const Turns turns = turns_of(shape);
  return turns.idle_of(turns.work);
}

double bubble_of_total(const PipelineShape& shape) {
  const Turns turns = turns_of(shape);
  return turns.idle_of(turns.work + turns.idle);
}

Bubble measured_bubble(const std::vector<StageUse>& stages) {
  double work = 0, end = 0, span = 0;
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    keep(work, stage->busy);
    keep(end, stage->end);
    keep(span, stage->end - stage->begin);
  }
  return {.makespan = end,
          .longest_span = span,
          .of_ideal = (end - work) / work,
          .of_total = (end - work) / end,
          .of_span = (span - work) / span};
}

}  // namespace lockstep::week24
