// Exercise 25.3 (extra): the planner. For a model, a cluster and a global batch there are thousands of ways to train:
// which (dp, tp, pp), which microbatch, schedule, ZeRO stage, recomputation? Predict the memory and the step time of
// each within a millisecond, before anything runs, and choose. `./lab plan` is this exercise with a command line.
//
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (arXiv 2104.04473), section 3;
// Isaev et al., "Calculon: a methodology and tool for high-level co-design of systems and large language models" (SC
// '23).
//
// Symbols: p = pp stages, m microbatches of a replica in a step, v chunks per stage, t = tp. Seconds and bytes.
#pragma once

#include <string>
#include <vector>

#include "common/gpt/pipeline/schedule.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week22_zero/memory_calculator.hpp"

namespace lockstep::week25 {

/// One way to train on dp × tp × pp GPUs.
struct Strategy {
  int dp = 1, tp = 1, pp = 1;
  int microbatch = 1;             ///< sequences of one microbatch of one replica
  std::string schedule = "1f1b";  ///< of week 24: gpipe, 1f1b, interleaved, zb-h1, zb-v, dualpipev
  int chunks = 1;                 ///< v, of interleaved; in a V 2
  int zero = 0;                   ///< stage: 0 and 1, and with pp = 1 also 2 and 3
  bool recompute = false;         ///< full: each block is recomputed from its input
  bool sequence_parallel = false;
  bool selective = false;       ///< instead of `recompute`: only the probabilities of materialised attention (22.6)
  int cp = 1;                   ///< of dp, ranks that share each sequence (23.6): StageWork is one's part already
  bool fp32_gradients = false;  ///< gradients are held, sent and summed in 32 bits, not 16
  int ep = 1;                   ///< of dp · tp, neighbours that share the experts of a mixture (23.7)
};

/// Given: what one stage does with one microbatch, all its chunks together, on one of its t ranks. Added up from the
/// simulator's own costs: max(FLOP / (peak × efficiency), bytes / bandwidth) + launch for each operation, α + nβ for
/// each message of the tensor-parallel all-reduces.
struct StageWork {
  // Seconds.
  double forward = 0;
  double backward = 0;      ///< all of it: gradients of the input and of the weights, and recomputation
  double weights = 0;       ///< of that, gradients of the weights, which zero bubble does later
  double recomputed = 0;    ///< of backward, the forward's repetition
  double tensor = 0;        ///< of forward and backward, waiting for tensor-parallel all-reduces
  double hop = 0;           ///< a boundary's message from here to the next stage, or from the last one to the first
  double hop_occupied = 0;  ///< of that, while its link carries nothing else that way
  double window = 0;        ///< of backward, while gradients become final one after the other: the blocks'
  double after = 0;         ///< once per step: the all-reduce of an embedding that two stages share
  // Elements on this rank.
  double parameters = 0;
  double late = 0;  ///< of them, those whose gradient is final only when a backward ends: the embedding
  // Bytes.
  double kept_bytes = 0;     ///< of activations, from a microbatch's forward to its backward
  double working_bytes = 0;  ///< of activations and buffers that all microbatches share

  /// For each chunk; empty: all equal.
  struct Chunk {
    double forward = 0, backward = 0, weights = 0;
  };
  std::vector<Chunk> chunks;
};

/// Given: what a strategy needs besides its stages.
struct Workload {
  std::vector<StageWork> stages;
  int microbatches = 1;                ///< m
  week21::CostModel data;              ///< costs between the ranks of a dp group, while all groups communicate
  double norm = 0;                     ///< seconds in which all ranks learn the gradient's norm
  double memory_bytes_per_second = 1;  ///< what limits the optimizer
};

// Part a: memory ------------------------------------------------------------------------------------------------------

/// The number of microbatches whose activations a stage needs memory for, if these are its steps: a forward allocates
/// them, the last step of its backward frees them. Only the same chunk can reuse a chunk's memory: each chunk needs its
/// own peak, of 1/v of what the stage keeps for a microbatch.
double in_flight(const StageSchedule& steps, int chunks);

struct StageBytes {
  week22::ModelState state;     ///< week 22's, of this stage's parameters over dp
  double activation_bytes = 0;  ///< kept and working
  double total_bytes() const { return state.total_bytes() + activation_bytes; }
};
/// 16 bits with fp32 master weights; `microbatches` in flight.
StageBytes stage_memory(const Strategy& strategy, const StageWork& stage, double microbatches);

// Part b: the pipeline ------------------------------------------------------------------------------------------------

/// A run of m microbatches through the pipeline, from the first forward on.
struct Pipeline {
  std::vector<double> ends;       ///< by stage: seconds until its last step ends
  std::vector<double> in_flight;  ///< by stage
  double seconds() const;
};

/// Given: simulates week 24's schedule of `microbatches` step by step (time_schedule). Its cost grows with microbatches
/// × stages × chunks.
Pipeline play(const Strategy& strategy, const std::vector<StageWork>& stages, int microbatches);

/// The same for any m, simulating at most 3p microbatches; up to 3p are simulated exactly. Once a pipeline is full, p
/// more microbatches take as long as the p before them, on every stage: the change from 2p to 3p repeats with every
/// further p.
Pipeline pipeline(const Strategy& strategy, const Workload& work);

/// Given: the memory of the stage that needs most; with fp32 gradients twice stage_memory's bytes of them.
StageBytes largest_memory(const Strategy& strategy, const Workload& work, const Pipeline& pipeline);

}  // namespace lockstep::week25
