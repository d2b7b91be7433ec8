// Exercise 24.3: 1F1B. Read labs/week24_pipeline/one_f_one_b.hpp first.
#include "labs/week24_pipeline/one_f_one_b.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::week24 {

StageSchedule one_f_one_b(const PipelineShape& shape, int stage) {
  const int m = shape.microbatches;
  StageSchedule steps;
  todo("24.3",
       "warm-up forwards; then every microbatch's backward, each after one more forward as long as there are any");
  return steps;
}

}  // namespace lockstep::week24
