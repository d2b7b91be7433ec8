// Exercise 25.6 (extra): the step's time, and the choice. 25.3 says what a strategy holds and how long its pipeline
// takes. What do data parallelism and the optimizer add, and which strategy is the best of those that fit? `./lab plan`
// is both exercises with a command line.
//
// Symbols are 25.3's: p = pp stages, m microbatches of a replica in a step, v chunks per stage. Seconds and bytes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "labs/week25_3d/planner.hpp"

namespace lockstep::week25 {

// Part a: what a stage exposes ----------------------------------------------------------------------------------------

inline double bytes_of_gradient(const Strategy& strategy) { return strategy.fp32_gradients ? 4 : 2; }
/// Given: once round a ring over dp: p − 1 steps, each of which moves one part. Gathered are parameters, of 2 bytes,
/// and with ZeRO-0 gradients.
double gather_seconds(const Strategy& strategy, const Workload& work, double elements);   ///< (p − 1)(α + nβ/p)
double scatter_seconds(const Strategy& strategy, const Workload& work, double elements);  ///< and add it: nγ/p + launch

/// Seconds of a step’s DP all-reduces at `stage` that nothing hides.
///   ZeRO-0  a step sums once: a scatter and a gather, behind the backward of the last microbatch
///   ZeRO-1  a scatter, behind the backward of the last microbatch; the gather of new parameters, behind nothing
///   ZeRO-2  every microbatch a scatter, behind its backward; and the gather, behind nothing
///   ZeRO-3  every microbatch a gather behind its forward, a gather and a scatter behind its backward
/// What a backward hides is its `window`; what a forward does, F/B of that; what the last microbatch's backward does,
/// w(1 + (v − 1)p)/v: its v chunks begin p turns apart. Nothing hides the collectives of the `late` elements. And a
/// hidden scatter is not free: its `additions`, which are given, lengthen what it hides behind.
double exposed_data(const Strategy& strategy, const Workload& work, const StageWork& stage);

// Part b: the step ----------------------------------------------------------------------------------------------------

/// The seconds of a step by use; their sum is the step.
struct StepTime {
  double compute = 0;     ///< of the busiest stage (largest F + B), without what follows
  double recomputed = 0;  ///< by it, to save memory
  double tensor = 0;      ///< it waits for tensor-parallel all-reduces
  double bubble = 0;      ///< the pipeline's remaining seconds, if hops took none
  double hops = 0;        ///< what they add
  double data = 0;        ///< DP all-reduces, and those of tied embeddings
  double update = 0;      ///< the optimizer
  double host = 0;        ///< given: what ./lab plan --offload adds, otherwise 0
  double input = 0;       ///< given: what ./lab plan --load-rate adds, otherwise 0
  double total() const { return compute + recomputed + tensor + bubble + hops + data + update + host + input; }
};

/// `pipeline`: this work's; `without_hops`: the same, if hops took no time. They give bubble and hops. data: the
/// largest over the stages of `after` plus exposed_data, less the time by which the stage ends before the last one to
/// end; never less than 0. update: the largest over the stages of norm plus, at the memory's bandwidth, 30 bytes for
/// each element that this rank updates (its parameters; from ZeRO-1 on 1/dp of them) and 2 for each of its gradients,
/// to zero them (from ZeRO-2 on 1/dp of them); with fp32 gradients 34 and 4.
StepTime step_time(const Strategy& strategy, const Workload& work, const Pipeline& pipeline,
                   const Pipeline& without_hops);

// Part c: choosing ----------------------------------------------------------------------------------------------------

struct Rated {
  Strategy strategy;
  StepTime time;
  StageBytes memory;
};
/// The `count` fastest of those that fit in `memory_bytes`, fastest first; among equally fast ones, the smaller memory
/// first.
std::vector<Rated> choose(std::vector<Rated> all, double memory_bytes, std::size_t count);

struct Share {
  std::string name;
  double seconds = 0;
};
/// Given: a step's seconds by name: "compute", "recomputation" (of memory), "tensor parallelism", "bubble", "pipeline
/// hops", "data parallelism" and "optimizer"; with --offload, "host", and where it waits for its batch, "input".
std::vector<Share> shares(const StepTime& time);
/// Given. What limits a step: its largest share.
Share limit(const StepTime& time);
/// Given. Where another strategy could gain most: the largest share except compute.
Share largest_overhead(const StepTime& time);

}  // namespace lockstep::week25
