// Exercise 24.5: zero bubble. Read labs/week24_pipeline/zero_bubble.hpp first.
#include "labs/week24_pipeline/zero_bubble.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::week24 {

StageSchedule zb_h1(const PipelineShape& shape, int stage) {
  const int m = shape.microbatches;
  StageSchedule steps;
  // lab 24.5a begin: 24.3's warm-up and turns, with Work::input_gradient; after that of microbatch i the
  // weight_gradient of microbatch i − s; the rest at the end
  const int warm_up = std::min(shape.stages - 1 - stage, m);
  for (int i = 0; i < warm_up; ++i) steps.push_back({Work::forward, i});
  for (int i = 0; i < m; ++i) {
    if (warm_up + i < m) steps.push_back({Work::forward, warm_up + i});
    steps.push_back({Work::input_gradient, i});
    if (i >= stage) steps.push_back({Work::weight_gradient, i - stage});
  }
  for (int i = std::max(0, m - stage); i < m; ++i) steps.push_back({Work::weight_gradient, i});
  // lab end
  return steps;
}

StageSchedule zb_h2(const PipelineShape& shape, int stage) {
  const int m = shape.microbatches;
  StageSchedule steps;
  // lab 24.5b begin: a longer warm-up, weight gradients 2s microbatches late, and the forward last in each turn
  const int warm_up = std::min(2 * (shape.stages - stage) - 1, m), late = 2 * stage;
  for (int i = 0; i < warm_up; ++i) steps.push_back({Work::forward, i});
  for (int i = 0; i < m; ++i) {
    steps.push_back({Work::input_gradient, i});
    if (i >= late) steps.push_back({Work::weight_gradient, i - late});
    if (warm_up + i < m) steps.push_back({Work::forward, warm_up + i});
  }
  for (int i = std::max(0, m - late); i < m; ++i) steps.push_back({Work::weight_gradient, i});
  // lab end
  return steps;
}

}  // namespace lockstep::week24
