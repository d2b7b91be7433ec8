// Given: the 3D step on a machine that you do not have. Your own step runs in the simulator, phantom, with one rank for
// each stage of one replica. Its tensor-parallel peers and the other replicas are symmetric peers
// (common/backends/sim/symmetry.hpp), since they do the same on other numbers. GPT-3 on 1,024 GPUs takes 16 ranks.
//
// Simulator only: library lockstep_phantom.
#pragma once

#include <string>
#include <vector>

#include "common/runtime/ledger/ledger.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/runtime/trace/trace.hpp"
#include "labs/trainer/options_3d.hpp"

namespace lockstep::week25 {

/// Times of one rank of a stage within the step, in seconds.
struct StageSeconds {
  double compute = 0;  ///< arithmetic in forwards and backwards
  double tensor = 0;   ///< waits for tensor-parallel collectives in them
  double idle = 0;     ///< the rest, from the beginning of the step to the end of the last backward: bubble and hops
  double data = 0;     ///< after the last backward, until gradients are averaged: the part that the backward does not
                       ///< hide. The last stage also waits for the first, with which it shares the embedding. With
                       ///< overlap_gather also the waits for new values that the forward does not hide
  double update = 0;   ///< clipping, AdamW, and gathering values of sharded state
  double pipeline() const { return compute + tensor + idle; }
};

struct LevelBytes {
  std::string name;     ///< name of the machine's link level
  double per_rank = 0;  ///< sent in the step by the rank that sends most over this level
  double all = 0;       ///< sent by all ranks
};

struct PhantomStep {
  double seconds = 0;       ///< duration of a step on the slowest rank
  double wall_seconds = 0;  ///< duration of the simulation itself
  int simulated_ranks = 0;
  std::vector<StageSeconds> stages;
  std::vector<Memory> memory;  ///< by stage: peaks on the rank that needs most
  std::vector<LevelBytes> levels;
  double bubble_of_ideal = 0;  ///< (the pipeline's time − the busiest stage's work) / that work, which includes
                               ///< collectives
  double bubble_of_total = 0;  ///< the same difference / the pipeline's time
  double model_flop = 0;       ///< FLOP per step, without recomputation: 72BLsh²(1 + s/6h + V/12hL) for GPT-2's block
  double mfu = 0;              ///< model_flop / (ranks · peak of the dtype · seconds)
  double tokens_per_second = 0;
  Trace trace;  ///< one replica: a row per stage, an event for each step of the schedule

  std::size_t slowest() const;     ///< the stage whose backwards end last
  double peak_bytes() const;       ///< on the rank that needs most memory
  double exposed_seconds() const;  ///< TP and DP collectives that the slowest stage waited for
};

/// Simulates a step in virtual time. Throws Error(usage) like check(), and if the machine has too few ranks. A step
/// that exceeds the machine's memory is simulated anyway. Ranks of one node that share a port get equal parts of it.
PhantomStep phantom_step(const Options3d& options, const Machine& machine, bool trace = false);

/// Returns the machine as the stages of one replica see it: link levels count stages, and a port that several ranks
/// share has one rank's part of the bandwidth. Throws Error(usage) if stages are not placed in the same way on every
/// node.
Machine folded_machine(const Machine& machine, const MeshShape& mesh, const AxisOrder& order);

}  // namespace lockstep::week25
