// ./lab volume: what a rank sends in a step of training, along each axis of the mesh, by formula and as counted.
#pragma once

#include <string>
#include <vector>

#include "tools/train/traffic.hpp"

namespace lockstep::train {

/// Traffic and time of one collective, or of sends outside of any, along an axis in a step: means over all ranks.
struct CountedTraffic {
  std::string axis;        // "data", "context", "tensor" or "pipeline"
  std::string collective;  // name of its region; "" outside of any
  double batches = 0, bytes = 0;
};

/// The four steps that are run, of which the third is counted: nothing of the set-up or the end is in it. Throws
/// Error(usage) where options ask for anything else.
TrainRequest counted_run(TrainRequest request);

/// Runs the plan of a counted_run, and counts the third step. Messages between ranks that differ in their place among a
/// pipeline's stages are the pipeline's, and so on; of ranks that share sequences, those inside ring attention the
/// context's, and others the data's. Throws Error where the run does not pass.
std::vector<CountedTraffic> counted_traffic(const TrainPlan& plan);

/// Runs, prints the table, and writes --json and --csv. Returns an exit code.
int report_volume(const TrainRequest& request, int available_ranks);

}  // namespace lockstep::train
