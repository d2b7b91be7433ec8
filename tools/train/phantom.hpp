// ./lab train --phantom of a mesh: one step of the 3D trainer in the simulator, with its costs and their places.
#pragma once

#include "tools/train/plan.hpp"

namespace lockstep::train {

/// True if a plan is for report_phantom: a phantom run of a pipeline or of tensor parallelism, unless every rank of it
/// is wanted.
bool is_folded(const TrainPlan& plan);

/// Simulates a step, prints its results, and writes --json and --trace. Returns the exit code. Of the simulator;
/// elsewhere Error(usage).
int report_phantom(const TrainPlan& plan);

}  // namespace lockstep::train
