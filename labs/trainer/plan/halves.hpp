// Stages whose backwards are in halves (24.5, 24.8): what they keep for the second halves, and what hides their sums.
#pragma once

#include <vector>

#include "labs/week25_3d/planner.hpp"

namespace lockstep::plan {

/// A chunk's part of a stage.
struct ChunkShare {
  double blocks = 0;
  double elements = 0;    ///< of its parameters, those that are not late
  double kept_bytes = 0;  ///< from a microbatch's forward to its backward
};

/// Of a schedule in halves: adds to each stage what microbatches need from the first half of a backward to the second,
/// of a block `later_bytes`; makes kept_bytes the mean over what is in flight, since chunks in a V hold unequally many;
/// and makes of `window` what is left of it, since all of a chunk's gradients are final with its last second half.
/// `chunks` by stage; the strategy's dp ranks hold the state.
void add_halves(const week25::Strategy& strategy, const std::vector<std::vector<ChunkShare>>& chunks,
                double later_bytes, week25::Workload& work);

}  // namespace lockstep::plan
