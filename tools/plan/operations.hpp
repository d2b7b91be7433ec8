// The operations of a strategy's step: how much they compute, and how much memory they move for it.
#pragma once

#include <string>
#include <vector>

#include "labs/trainer/plan/search.hpp"

namespace lockstep::plan {

/// All calls of one operation.
struct OperationTotal {
  std::string name;
  int calls = 0;
  double seconds = 0;  ///< on the task's machine, nothing else running
  double flop = 0;
  double bytes = 0;  ///< read and written, each element once
};

/// Operations of one GPU for one microbatch, forward and backward through all layers, longest first. Only the
/// tensor-parallel peers and those that share sequences are simulated: replicas and stages do the same for other
/// sequences and layers.
std::vector<OperationTotal> operations_of_microbatch(const Task& task, const week25::Strategy& strategy);

}  // namespace lockstep::plan
