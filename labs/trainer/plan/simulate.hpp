// One step of a strategy in the simulator, phantom: what its prediction is checked against.
#pragma once

#include "labs/trainer/options_3d.hpp"
#include "labs/trainer/plan/search.hpp"

namespace lockstep::plan {

/// What 25.2's step is asked to be.
week25::Options3d options_of(const Task& task, const week25::Strategy& strategy);

struct Simulated {
  double seconds = 0;       ///< of the slowest rank's step
  double memory_bytes = 0;  ///< of the fullest rank, at its peak
};
/// The 3D step of 25.2, all ranks. Small clusters: every rank and message is played.
Simulated simulate(const Task& task, const week25::Strategy& strategy);

}  // namespace lockstep::plan
