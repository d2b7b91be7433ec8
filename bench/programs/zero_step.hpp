// One training step of a GPT whose training state is divided by a ZeRO stage: made to be timed, and to be weighed.
#pragma once

#include <vector>

#include "bench/support/measure.hpp"
#include "common/support/json/results.hpp"
#include "labs/trainer/engine.hpp"

namespace lockstep::bench {

struct ZeroShape {
  GptConfig model;
  std::uint64_t seed = 1;
  week25::EngineOptions engine;  // its stage is set by whoever uses it
  std::size_t sequences = 1;     // of each rank and microbatch
  std::size_t length = 0;        // tokens of each
  int microbatches = 1;
};

/// A GPT of about so many parameters: depth and width grow together, and the vocabulary makes up for the rest.
GptConfig model_of_size(double parameters);

/// For `measure`: a window and a step. Verified against the whole batch on one rank; rank 0's main queue's seconds of
/// waiting, and all its seconds of communication, in the timed acts are written to `waits`.
struct Waits {
  double exposed = 0;        // seconds that main waited, in one act
  double communication = 0;  // seconds in collectives, on any queue, in one act
  double optimizer = 0;      // seconds in AdamW, in one act
  std::vector<double> all_exposed, all_communication, all_optimizer;  // one an act
};
Prepared prepare_zero(Rank me, const ZeroShape& shape, int stage, Purpose purpose, Waits* waits);

/// The memory of a step, on the rank that holds most: for each kind of state, at rest and at its peak, the formula
/// Ψ/p beside what the ledger counted, and what explains the difference, to the byte. One row each: stage, ranks,
/// category, moment ("resident" or "peak"), predicted_bytes, measured_bytes, explained_bytes, reason.
std::vector<Row> weigh(const RunOptions& options, const ZeroShape& shape, int stage);

}  // namespace lockstep::bench
