// Programs for the page's virtual cluster: some right, some wrong.
#pragma once

#include <vector>

#include "common/rank.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"

namespace lockstep::playground {

struct ClusterProgram {
  const char* name;   ///< of its function in cluster_programs.cpp
  const char* title;  ///< for a reader
  /// `mine` and `theirs` are of one size. Those with a formula leave the sum over all ranks in `mine`.
  void (*run)(Rank me, Slice mine, Slice theirs);
  double (*predicted)(week21::CostModel cost, int ranks, double bytes) = nullptr;
};

const std::vector<ClusterProgram>& cluster_programs();

}  // namespace lockstep::playground
