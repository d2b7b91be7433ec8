// 24.6 with maxima kept by comparing.
#include "labs/week24_pipeline/bubble.hpp"

namespace lockstep::week24 {
namespace {

void keep(double& most, double value) {
  if (value > most) most = value;
}

}  // namespace

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
