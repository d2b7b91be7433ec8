// Stages with split backwards (24.5, 24.8): the memory that they keep for the second halves.
#pragma once

#include <vector>

#include "labs/week25_3d/planner.hpp"

namespace lockstep::plan {

/// A chunk's part of a stage.
struct ChunkShare {
  double blocks = 0;
  double kept_bytes = 0;  ///< from a microbatch's forward to its backward
};

/// Adjusts the stages for a schedule with split backwards. Adds the memory that microbatches need between the halves of
/// a backward, `later_bytes` per block. Sets kept_bytes to the mean over microbatches in flight, since chunks in a V
/// hold different amounts. Sets `window` to 0, since all of a chunk's gradients become final with its last second half:
/// what a V hides of its other chunk's sums is not counted. `chunks`: by stage.
void add_halves(const week25::Strategy& strategy, const std::vector<std::vector<ChunkShare>>& chunks,
                double later_bytes, week25::Workload& work);

}  // namespace lockstep::plan
