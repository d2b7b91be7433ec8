// Exercise 24.4: interleaved 1F1B. Read labs/week24_pipeline/interleaved.hpp first.
#include "labs/week24_pipeline/interleaved.hpp"

#include <algorithm>
#include <string>

#include "common/error.hpp"

namespace lockstep::week24 {

Step forward_number(const PipelineShape& shape, int k) {
  const int p = shape.stages, v = shape.chunks;
  todo("24.4a", "which group of p·v forwards, which microbatch in it, which chunk");
}

Step backward_number(const PipelineShape& shape, int k) {
  const int p = shape.stages, v = shape.chunks;
  todo("24.4a", "the same, with chunks from the last to the first");
}

StageSchedule interleaved(const PipelineShape& shape, int stage) {
  const int p = shape.stages, all = shape.chunks * shape.microbatches;
  if (shape.microbatches % p != 0)
    usage_error("interleaving: " + std::to_string(shape.microbatches) + " microbatches are no multiple of " +
                std::to_string(p) + " stages");
  StageSchedule steps;
  todo("24.4b", "as 1F1B, with another warm-up and with forward_number and backward_number");
  return steps;
}

}  // namespace lockstep::week24
