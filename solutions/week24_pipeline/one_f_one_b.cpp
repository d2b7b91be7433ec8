// Exercise 24.3: 1F1B. Read labs/week24_pipeline/one_f_one_b.hpp first.
#include "labs/week24_pipeline/one_f_one_b.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::week24 {

StageSchedule one_f_one_b(const PipelineShape& shape, int stage) {
  const int m = shape.microbatches;
  StageSchedule steps;
  // lab 24.3 begin: warm-up forwards; then every microbatch's backward, each after one more forward as long as there
  // are any
  const int warm_up = std::min(shape.stages - 1 - stage, m);
  for (int i = 0; i < warm_up; ++i) steps.push_back({Work::forward, i});
  for (int i = 0; i < m; ++i) {
    if (warm_up + i < m) steps.push_back({Work::forward, warm_up + i});
    steps.push_back({Work::backward, i});
  }
  // lab end
  return steps;
}

}  // namespace lockstep::week24
