// Passes over memory that software makes in a block and the labs do not (tools/plan/software.hpp lists them), and
// casts.
#pragma once

#include <vector>

#include "common/gpt/model/config.hpp"
#include "common/runtime/machine/machine.hpp"

namespace lockstep::plan {

struct Pieces;

/// An operation, by the bytes that it reads and writes in addition to ours.
struct Pass {
  double bytes = 0;      ///< per token and channel, or per element of the block's matrices
  bool sharded = false;  ///< divided over tensor-parallel ranks; otherwise only with sequence parallelism
  bool matrices = false;
};

struct Unfused {
  std::vector<Pass> forward, backward;  ///< of a block
  double logit_bytes = 0;               ///< per logit, of the loss and its gradient
  bool narrow = false;                  ///< sequence parallelism gathers 8 bits
};

/// Adds its time on `machine` to the pieces of a block that `rows` tokens pass.
void add_unfused(const Machine& machine, const Unfused& software, const GptConfig& config, double rows, Pieces& pieces);

}  // namespace lockstep::plan
