// Exercise 25.3 (extra): the planner. For a model, a cluster and a global batch there are thousands of ways to train:
// which (dp, tp, pp), which microbatch, schedule, ZeRO stage, recomputation? Predict the memory and the step time of
// each within a millisecond, before anything runs, and choose. `./lab plan` is this exercise with a command line.
//
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (arXiv 2104.04473), section 3;
// Isaev et al., "Calculon: a methodology and tool for high-level co-design of systems and large language models" (SC
// '23).
//
// Symbols: p = pp stages, m microbatches of a replica in a step, v chunks a stage, t = tp. Seconds and bytes.
#pragma once

#include <string>
#include <vector>

#include "common/gpt/pipeline/schedule.hpp"
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
struct Workload {
  std::vector<StageWork> stages;
  int microbatches = 1;                ///< m
  week21::CostModel data;              ///< prices between the ranks of a dp group, all groups at once
  double norm = 0;                     ///< seconds in which all ranks learn the gradient's norm
  double memory_bytes_per_second = 1;  ///< what limits the optimizer
};

// Part a: memory ------------------------------------------------------------------------------------------------------

/// How many microbatches' activations a stage needs memory for, if these are its steps: a forward begins to hold them,
/// the last step of its backward lets go. The memory of a chunk is used again by the same chunk alone: each chunk needs
/// its own peak, of a v-th of what the stage keeps of a microbatch.
double in_flight(const StageSchedule& steps, int chunks);

struct StageBytes {
  week22::ModelState state;     ///< week 22's, of this stage's parameters over dp
  double activation_bytes = 0;  ///< kept and working
  double total_bytes() const { return state.total_bytes() + activation_bytes; }
};
/// 16 bits with fp32 master weights; `microbatches` in flight.
StageBytes stage_memory(const Strategy& strategy, const StageWork& stage, double microbatches);

// Part b: the pipeline ------------------------------------------------------------------------------------------------

/// What becomes of m microbatches in the pipeline, from the first forward on.
struct Pipeline {
  std::vector<double> ends;       ///< by stage: seconds until its last step ends
  std::vector<double> in_flight;  ///< by stage
  double seconds() const;
};

/// Given: plays week 24's schedule of `microbatches` step by step by its clock (time_schedule). Its cost grows with
/// microbatches × stages × chunks.
Pipeline play(const Strategy& strategy, const std::vector<StageWork>& stages, int microbatches);

/// The same for any m, playing no more than 3p microbatches at a time; so many are played whole. Once a pipeline is
/// full, p microbatches more take as long as the p before them, on every stage: what changes from 2p to 3p changes
/// again with each p.
Pipeline pipeline(const Strategy& strategy, const Workload& work);

/// Given: of the stage that needs most.
StageBytes largest_memory(const Strategy& strategy, const Workload& work, const Pipeline& pipeline);

// Part c: the step ----------------------------------------------------------------------------------------------------

/// Where a step's seconds go; their sum is the step.
struct StepTime {
  double compute = 0;     ///< of the busiest stage (largest F + B), without what follows
  double recomputed = 0;  ///< by it: the price of memory
  double tensor = 0;      ///< it waits for tensor-parallel sums
  double bubble = 0;      ///< the pipeline's remaining seconds, if hops took none
  double hops = 0;        ///< what they add
  double data = 0;        ///< sums over dp, and tied embeddings
  double update = 0;      ///< the optimizer
  double total() const { return compute + recomputed + tensor + bubble + hops + data + update; }
};

/// Given: one way round a ring over dp, p − 1 steps that each move a part.
double gather_seconds(const Strategy& strategy, const Workload& work, double elements);   ///< (p − 1)(α + nβ/p)
double scatter_seconds(const Strategy& strategy, const Workload& work, double elements);  ///< and add it: nγ/p + launch

/// Seconds of a step's sums over dp at `stage` that nothing hides. Gradients and parameters have 2 bytes.
///   ZeRO-0  a step sums once: a scatter and a gather, behind the backward of the last microbatch
///   ZeRO-1  a scatter, behind the backward of the last microbatch; the gather of new parameters, behind nothing
///   ZeRO-2  every microbatch a scatter, behind its backward; and the gather, behind nothing
///   ZeRO-3  every microbatch a gather behind its forward, a gather and a scatter behind its backward
/// What a backward hides is its `window`; what a forward does, F/B of that; what the last microbatch's backward does,
/// w(1 + (v − 1)p)/v: its v chunks begin p turns apart. The `late` elements' own sums hide behind nothing. And a hidden
/// scatter is not free: its additions (scatter − gather) lengthen what it hides behind.
double exposed_data(const Strategy& strategy, const Workload& work, const StageWork& stage);

/// `pipeline`: of this work; `without_hops`: of the same, if hops took no time. They give bubble and hops. data: the
/// largest over the stages of `after` and exposed_data, less what the stage has ended before the last one; never less
/// than 0. update: the largest of norm and, over the memory's bandwidth, 30 bytes for each element that this rank
/// updates (parameters, or from ZeRO-1 on a dp-th) and 2 for each of its gradients, to zero them (from ZeRO-2 on a
/// dp-th too).
StepTime step_time(const Strategy& strategy, const Workload& work, const Pipeline& pipeline,
                   const Pipeline& without_hops);

// Part d: choosing ----------------------------------------------------------------------------------------------------

struct Rated {
  Strategy strategy;
  StepTime time;
  StageBytes memory;
};
/// The `count` fastest of those that fit `memory_bytes`, fastest first; of equally fast ones the smaller memory first.
std::vector<Rated> choose(std::vector<Rated> all, double memory_bytes, std::size_t count);

struct Share {
  std::string name;
  double seconds = 0;
};
/// Given: a step's seconds by name: "compute", "recomputation" (of memory), "tensor parallelism", "bubble", "pipeline
/// hops", "data parallelism" and "optimizer".
std::vector<Share> shares(const StepTime& time);
/// Given. What limits a step: its largest share.
Share limit(const StepTime& time);
/// Given. What another strategy could gain most from: its largest share but compute.
Share largest_overhead(const StepTime& time);

}  // namespace lockstep::week25
