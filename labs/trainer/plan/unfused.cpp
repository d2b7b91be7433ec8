#include "labs/trainer/plan/unfused.hpp"

#include <algorithm>

#include "labs/trainer/plan/pieces.hpp"

namespace lockstep::plan {

void add_unfused(const Machine& machine, const Unfused& software, const GptConfig& config, double rows,
                 Pieces& pieces) {
  const double tp = config.tensor.ranks, shared = config.tensor.sequence_parallel ? tp : 1;
  const auto seconds = [&](const std::vector<Pass>& passes) {
    double sum = 0;
    for (const Pass& pass : passes) {
      if (pass.bytes == 0) continue;
      const double elements = pass.matrices ? static_cast<double>(config.block_matrices()) / tp
                                            : rows * static_cast<double>(config.d_model) / (pass.sharded ? tp : shared);
      sum += machine.seconds({.name = "unfused", .bytes = pass.bytes * elements});
    }
    return sum;
  };
  const double forward = seconds(software.forward), backward = seconds(software.backward);
  pieces.block.seconds += forward, pieces.rebuilt += forward;
  pieces.block_back.seconds += backward, pieces.block_inputs += backward;
  if (software.narrow && config.tensor.sequence_parallel)  // the inputs of qkv and up; their results' gradients
    for (Cost* cost : {&pieces.block, &pieces.block_back}) {
      const double bytes = 2 * rows * static_cast<double>(config.d_model);
      const double less = library_gather_seconds(machine, config.tensor.ranks, bytes) -
                          library_gather_seconds(machine, config.tensor.ranks, bytes / 2);
      const double saved = std::min(2 * less, cost->waiting);
      cost->seconds -= saved, cost->waiting -= saved;
      if (cost == &pieces.block) pieces.rebuilt -= saved;
    }
  const double logits = rows * static_cast<double>(config.vocabulary) / tp;
  if (software.logit_bytes > 0)
    pieces.head.seconds += machine.seconds({.name = "unfused", .bytes = software.logit_bytes * logits});
}

}  // namespace lockstep::plan
