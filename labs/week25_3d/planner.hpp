// Exercise 25.3 (extra): the planner. For a model, a cluster and a global batch there are thousands of ways to train:
// which (dp, tp, pp), which microbatch, schedule, ZeRO stage, recomputation? Predict the memory and the step time of
// each in microseconds, before anything runs, and choose. `./lab plan` is this exercise with a command line.
//
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (arXiv 2104.04473), section 3;
// Isaev et al., "Calculon: a methodology and tool for high-level co-design of systems and large language models" (SC
// '23).
//
// Symbols: p = pp stages, m microbatches of a replica in a step, v chunks a stage, t = tp. Seconds and bytes.
#pragma once

#include <string>
#include <vector>

#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week22_zero/memory_calculator.hpp"

namespace lockstep::week25 {

/// One way to train on dp × tp × pp GPUs.
struct Strategy {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int microbatch = 1;             ///< sequences of one microbatch of one replica
  std::string schedule = "1f1b";  ///< of week 24: gpipe, 1f1b, interleaved, zb-h1
  int chunks = 1;                 ///< v, of interleaved
  int zero = 0;                   ///< stage: 0 and 1, and with pp = 1 also 2 and 3
  bool recompute = false;         ///< full: each block again, from its input
  bool sequence_parallel = false;
};

/// Given: what one stage does with one microbatch, all its chunks together, on one of its t ranks. Made of prices of
/// pieces that are the simulator's own: max(FLOP / (peak × efficiency), bytes / bandwidth) + launch for each operation,
/// α + nβ for each message of the tensor-parallel sums.
struct StageWork {
  // Seconds.
  double forward = 0;
  double backward = 0;    ///< all of it: gradients of the input and of the weights, and what is computed again
  double weights = 0;     ///< of that, gradients of the weights, which zb-h1 does later
  double recomputed = 0;  ///< of backward, the forward's repetition
  double tensor = 0;      ///< of forward and backward, waiting for tensor-parallel sums
  double hop = 0;         ///< a boundary's message from here to the next stage, or from the last one to the first
  double window = 0;      ///< of backward, while gradients become final one after the other: the blocks'
  double after = 0;       ///< once a step: the sum of an embedding that two stages have
  // Elements on this rank.
  double parameters = 0;
  double late = 0;  ///< of them, those whose gradient is final only when a backward ends: the embedding
  // Bytes.
  double kept_bytes = 0;     ///< of activations, from a microbatch's forward to its backward
  double working_bytes = 0;  ///< of activations and buffers that all microbatches share
};

/// Given: what a strategy needs beside its stages.
struct Work {
  std::vector<StageWork> stages;
  int microbatches = 1;                ///< m
  week21::CostModel data;              ///< prices between the ranks of a dp group, all groups at once
  double norm = 0;                     ///< seconds in which all ranks learn the gradient's norm
  double memory_bytes_per_second = 1;  ///< what limits the optimizer
};

// Part a: memory ------------------------------------------------------------------------------------------------------

/// How many microbatches' activations stage `stage` has memory for: gpipe m; 1f1b p − stage; zb-h1 p; never more than
/// m. Interleaved counts chunks, a v-th of a microbatch each. The memory of a chunk is used again by the same chunk
/// alone, so chunk c needs as much as it has forwards (never more than m) before its first backward: among the first
/// 2(p − 1 − stage) + (v − 1)p + (v − 1 − c)p + 1 forwards of the stage, which go in groups of p through the chunks.
double in_flight(const Strategy& strategy, int microbatches, int stage);

struct StageMemory {
  week22::ModelState state;     ///< week 22's, of this stage's parameters over dp
  double activation_bytes = 0;  ///< kept and working
  double total_bytes() const { return state.total_bytes() + activation_bytes; }
};
/// 16 bits with fp32 master weights.
StageMemory stage_memory(const Strategy& strategy, const Work& work, int stage);
/// Given: of the stage that needs most.
StageMemory largest_memory(const Strategy& strategy, const Work& work);

// Part b: the pipeline ------------------------------------------------------------------------------------------------

/// Seconds from the first forward to the end of the last backward. Stages may differ, and hops are hidden only where
/// the schedule lets them. With T_s = F_s + B_s (B whole, I + W), H = Σ hop_s without the last one's, and Λ = Σ T_s +
/// 2H, the first microbatch there and back:
///   gpipe        Λ + (m − 1)(max F_s + max B_s)
///   1f1b         Λ + the paces of microbatches n = 1 … m − 1: the slowest round trip among the stages that still have
///                forwards to do, which are those from p − m + n on (all, where that is less than 0). One from i to j
///                and back brings j − i + 1 microbatches forward: (T_i + … + T_j + 2(hop_i + … + hop_(j − 1)))/(j − i +
///                1)
///   interleaved  m·max T_s + (Σ of the other T_s)/v + 2(vH + (v − 1)·the last one's hop)
///   zb-h1        Σ(F_s + I_s) + 4H + the largest of what a stage has left to do then: m·T_s, but for min(p − s, m)
///                forwards and one I that are done, and min(s, m − 1) W that nobody waits for
double pipeline_seconds(const Strategy& strategy, const Work& work);

// Part c: the step ----------------------------------------------------------------------------------------------------

/// Where a step's seconds go; their sum is the step.
struct StepTime {
  double compute = 0;     ///< of the busiest stage (largest T_s), without what follows
  double recomputed = 0;  ///< by it: the price of memory
  double tensor = 0;      ///< it waits for tensor-parallel sums
  double bubble = 0;      ///< the pipeline's remaining seconds, as if hops took none
  double hops = 0;        ///< what they add
  double data = 0;        ///< sums over dp, and tied embeddings
  double update = 0;      ///< the optimizer
  double total() const { return compute + recomputed + tensor + bubble + hops + data + update; }
};

/// One way round a ring over dp: p − 1 steps that each move a part; the first is given.
double gather_seconds(const Strategy& strategy, const Work& work, double elements);   ///< (p − 1)(α + nβ/p)
double scatter_seconds(const Strategy& strategy, const Work& work, double elements);  ///< and add it: nγ/p + launch

/// Seconds of a step's sums over dp at `stage` that nothing hides. Elements have 2 bytes. `late` gradients have nothing
/// left to hide behind; a sum that is hidden still lengthens what it hides behind by its additions. Seconds:
///   stage 0  s + g of the late ones, and max(additions, s + g − last) of the others
///   stage 1  s of the late ones, max(additions, s − last) of the others; g of all: the values, after the update
///   stage 2  m times (s of the late ones, and max(additions, s − w) of the others); g of all
///   stage 3  m times (s and 2g of the late ones, max(0, g − w·F/B) and max(additions, g + s − w) of the others)
/// with s = scatter_seconds, g = gather_seconds, additions = s − g of the others; w the window, and last = w(1 + (v −
/// 1)p)/v that of the last microbatch, whose v chunks begin p turns apart.
double exposed_data(const Strategy& strategy, const Work& work, const StageWork& stage);

/// data: the largest over the stages of `after` and exposed_data, less the stage's `lead`; never less than 0. update:
/// the largest of norm and, over the memory's bandwidth, 30 bytes for each element that this rank updates (parameters,
/// or from stage 1 on a dp-th) and 2 for each of its gradients, to zero them (from stage 2 on a dp-th too).
StepTime step_time(const Strategy& strategy, const Work& work);

// Part d: choosing ----------------------------------------------------------------------------------------------------

struct Rated {
  Strategy strategy;
  StepTime time;
  StageMemory memory;
};
/// The `count` fastest of those that fit `memory_bytes`, fastest first; of equally fast ones the smaller memory first.
std::vector<Rated> choose(std::vector<Rated> all, double memory_bytes, std::size_t count);

/// What costs a step most beside its compute: "recomputation" (memory), "tensor parallelism", "bubble", "pipeline
/// hops", "data parallelism" or "optimizer"; "compute" where that is at least 9 tenths of the step.
std::string limit(const StepTime& time);

}  // namespace lockstep::week25
