// 24.2 filled from both ends: the k-th step and the k-th before the last are of one microbatch.
#include "labs/week24_pipeline/gpipe.hpp"

namespace lockstep::week24 {

StageSchedule naive(const PipelineShape& shape, int) {
  StageSchedule steps;
  for (int i = 0; i < 2 * shape.microbatches; ++i)
    steps.push_back({i % 2 == 0 ? Work::forward : Work::backward, i / 2, 0});
  return steps;
}

StageSchedule gpipe(const PipelineShape& shape, int) {
  const auto m = static_cast<std::size_t>(shape.microbatches);
  StageSchedule steps(2 * m);
  for (std::size_t k = 0; k < m; ++k) {
    steps[k] = {.work = Work::forward, .microbatch = static_cast<int>(k)};
    steps[2 * m - 1 - k] = {.work = Work::backward, .microbatch = static_cast<int>(k)};
  }
  return steps;
}

}  // namespace lockstep::week24
