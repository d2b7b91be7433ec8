// 24.3 decided step by step: a forward, while fewer microbatches are in flight than the stage may hold.
#include "labs/week24_pipeline/one_f_one_b.hpp"

#include <algorithm>

namespace lockstep::week24 {

StageSchedule one_f_one_b(const PipelineShape& shape, int stage) {
  const int most = shape.stages - stage;
  int forwards = 0, backwards = 0;
  StageSchedule steps;
  while (backwards < shape.microbatches)
    if (forwards < shape.microbatches && forwards - backwards < most)
      steps.push_back({Work::forward, forwards++});
    else
      steps.push_back({Work::backward, backwards++});
  return steps;
}

}  // namespace lockstep::week24
