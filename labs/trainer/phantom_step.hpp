// Given: the 3D step on a machine that you do not have. The student's own step runs in the simulator, phantom, with
// one rank for each stage of one replica; its tensor-parallel peers and the other replicas are its symmetric peers
// (common/backends/sim/symmetry.hpp), since they do the same on other numbers. GPT-3 on 1,024 GPUs is 16 ranks.
//
// Of the simulator alone: library lockstep_phantom.
#pragma once

#include <string>
#include <vector>

#include "common/runtime/ledger/ledger.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/runtime/trace/trace.hpp"
#include "labs/trainer/options_3d.hpp"

namespace lockstep::week25 {

/// Of one rank of a stage, in seconds of the step.
struct StageSeconds {
  double compute = 0;  ///< arithmetic in forwards and backwards
  double tensor = 0;   ///< in them, waiting for tensor-parallel sums
  double idle = 0;     ///< from the step's begin to the end of the last backward, neither: bubble and hops
  double data = 0;     ///< after it, until gradients are averages: what the backward does not hide. The last stage
                       ///< also waits for the first, with which it shares the embedding. And before it, with
                       ///< overlap_gather: for new values that the forward does not hide
  double update = 0;   ///< clipping, AdamW, and gathering values of sharded state
  double pipeline() const { return compute + tensor + idle; }
};

struct LevelBytes {
  std::string name;     ///< of the machine's link level
  double per_rank = 0;  ///< sent in the step by the rank that sends most across it
  double all = 0;       ///< by all ranks
};

struct PhantomStep {
  double seconds = 0;       ///< of a step, by the slowest rank
  double wall_seconds = 0;  ///< that the simulation took
  int simulated_ranks = 0;
  std::vector<StageSeconds> stages;
  std::vector<Memory> memory;  ///< by stage: peaks, of the rank that has most
  std::vector<LevelBytes> levels;
  double bubble_of_ideal = 0;  ///< (the pipeline's time − the busiest stage's work) / that work, sums included in it
  double bubble_of_total = 0;  ///< the same of the pipeline's time
  double model_flop = 0;       ///< of the step, without recomputation: 72BLsh²(1 + s/6h + V/12hL), of GPT-2's block
  double mfu = 0;              ///< model_flop / (ranks · peak of the type · seconds)
  double tokens_per_second = 0;
  Trace trace;  ///< one replica: a row a stage, an event for each step of the schedule

  std::size_t slowest() const;     ///< the stage that was last to end its backwards
  double peak_bytes() const;       ///< of the rank with most memory
  double exposed_seconds() const;  ///< TP and DP collectives that the slowest stage waited for
};

/// A step in virtual time. Throws Error(usage) as check() does, and where the machine does not hold the ranks; what
/// does not fit its memory is simulated anyway. Ranks of one node that share a port have an equal part of it.
PhantomStep phantom_step(const Options3d& options, const Machine& machine, bool trace = false);

/// The machine as the stages of one replica see it: link levels count stages, and ports that several ranks share have
/// the part of one. Throws Error(usage) where stages are not placed in the same way on every node.
Machine folded_machine(const Machine& machine, const MeshShape& mesh, const AxisOrder& order);

}  // namespace lockstep::week25
