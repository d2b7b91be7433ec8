// Simulates one step of a strategy, phantom, to compare with its prediction.
#pragma once

#include "labs/trainer/options_3d.hpp"
#include "labs/trainer/plan/search.hpp"

namespace lockstep::plan {

/// Returns the options of 25.2's step for a strategy.
week25::Options3d options_of(const Task& task, const week25::Strategy& strategy);

struct Simulated {
  double seconds = 0;       ///< duration of the slowest rank's step
  double memory_bytes = 0;  ///< peak of the rank that needs most
};
/// Runs the 3D step of 25.2 on all ranks. For small clusters: every rank and message is simulated.
Simulated simulate(const Task& task, const week25::Strategy& strategy);

}  // namespace lockstep::plan
