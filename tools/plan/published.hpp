// Iteration times that Megatron-LM published, and what the planner predicts for the same steps: from the machine file
// alone, and with its arithmetic slowed to one published layer.
#pragma once

#include <string>
#include <vector>

#include "labs/week25_3d/planner.hpp"

namespace lockstep::plan {

/// Korthikanti et al., arXiv 2205.05198, Table 5: seconds of an iteration with full recomputation, and with sequence
/// parallelism and selective recomputation, which flash attention does by itself.
struct Published {
  std::string model, cluster;
  int batch = 0;
  week25::Strategy strategy;  ///< without recomputation and sequence parallelism
  double full = 0, selective = 0;
};
std::vector<Published> megatron_iterations();

/// By how much arithmetic takes longer than the machine file says.
struct Slower {
  double products = 1;  ///< what the rate of arithmetic limits
  double others = 1;    ///< what memory's bandwidth limits
};

/// Seconds of one layer of the 22B model on 8 A100, microbatch 4, forward and backward: with sequence parallelism, or
/// with full recomputation, the forward twice. `machines` is the folder of machine files.
double layer_seconds(const std::string& machines, Slower by, bool recompute);
/// So that both layers take what the same paper's Table 4 says: 7.2 + 11.8 ms and 7.7 + 19.5 ms.
Slower slower_by_one_layer(const std::string& machines);

/// The planner's seconds of this iteration.
double predicted_seconds(const Published& published, bool recompute, Slower by, const std::string& machines);

}  // namespace lockstep::plan
