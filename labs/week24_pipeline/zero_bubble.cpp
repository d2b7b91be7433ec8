// Exercise 24.5: zero bubble. Read labs/week24_pipeline/zero_bubble.hpp first.
#include "labs/week24_pipeline/zero_bubble.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::week24 {

StageSchedule zb_h1(const PipelineShape& shape, int stage) {
  const int m = shape.microbatches;
  StageSchedule steps;
  todo("24.5a",
       "24.3's warm-up and turns, with Work::input_gradient; after that of microbatch i the weight_gradient of "
       "microbatch i − s; the rest at the end");
  return steps;
}

StageSchedule zb_h2(const PipelineShape& shape, int stage) {
  const int m = shape.microbatches;
  StageSchedule steps;
  todo("24.5b", "a longer warm-up, weight gradients 2s microbatches late, and the forward last in each turn");
  return steps;
}

}  // namespace lockstep::week24
