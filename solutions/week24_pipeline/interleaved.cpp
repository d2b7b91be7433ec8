// Exercise 24.4: interleaved 1F1B. Read labs/week24_pipeline/interleaved.hpp first.
#include "labs/week24_pipeline/interleaved.hpp"

#include <algorithm>
#include <string>

#include "common/error.hpp"

namespace lockstep::week24 {

Step forward_number(const PipelineShape& shape, int k) {
  const int p = shape.stages, v = shape.chunks;
  // lab 24.4a begin: which group of p·v forwards, which microbatch in it, which chunk
  return {Work::forward, k / (p * v) * p + k % p, k / p % v};
  // lab end
}

Step backward_number(const PipelineShape& shape, int k) {
  const int p = shape.stages, v = shape.chunks;
  // lab 24.4a begin: the same, with chunks from the last to the first
  return {Work::backward, k / (p * v) * p + k % p, v - 1 - k / p % v};
  // lab end
}

StageSchedule interleaved(const PipelineShape& shape, int stage) {
  const int p = shape.stages, all = shape.chunks * shape.microbatches;
  if (shape.microbatches % p != 0)
    usage_error("interleaving: " + std::to_string(shape.microbatches) + " microbatches are no multiple of " +
                std::to_string(p) + " stages");
  StageSchedule steps;
  // lab 24.4b begin: as 1F1B, with another warm-up and with forward_number and backward_number
  const int warm_up = std::min(2 * (p - 1 - stage) + (shape.chunks - 1) * p, all);
  for (int k = 0; k < warm_up; ++k) steps.push_back(forward_number(shape, k));
  for (int k = 0; k < all; ++k) {
    if (warm_up + k < all) steps.push_back(forward_number(shape, warm_up + k));
    steps.push_back(backward_number(shape, k));
  }
  // lab end
  return steps;
}

}  // namespace lockstep::week24
