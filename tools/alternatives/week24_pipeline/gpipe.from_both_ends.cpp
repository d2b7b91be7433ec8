// 24.2 filled from both ends: the k-th step and the k-th before the last are of one microbatch. The bubble of the
// total from the one of the ideal: idle/total = 1 − 1/(1 + idle/ideal). It rounds otherwise.
#include "labs/week24_pipeline/gpipe.hpp"

namespace lockstep::week24 {
namespace {

double of_total(double of_ideal) { return 1 - 1 / (1 + of_ideal); }

}  // namespace

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

double bubble_of_ideal(const PipelineShape& shape) { return (shape.stages - 1.0) / shape.chunks / shape.microbatches; }

double bubble_of_total(const PipelineShape& shape) { return of_total(bubble_of_ideal(shape)); }

}  // namespace lockstep::week24
