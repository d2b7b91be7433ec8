// One training step of a GPT whose training state is sharded by a ZeRO stage, for measuring its time and its memory.
#pragma once

#include <vector>

#include "bench/support/measure.hpp"
#include "common/support/json/results.hpp"
#include "labs/trainer/engine.hpp"

namespace lockstep::bench {

struct ZeroShape {
  GptConfig model;
  std::uint64_t seed = 1;
  week25::EngineOptions engine;  // the caller sets its stage
  std::size_t sequences = 1;     // per rank and microbatch
  std::size_t length = 0;        // tokens per sequence
  int microbatches = 1;
};

/// Returns a GPT of about so many parameters: depth and width grow together, and the vocabulary makes up the rest.
GptConfig model_of_size(double parameters);

/// Prepares a window and a step for `measure`, verified against the whole batch on one rank. The timed acts write to
/// `waits` the seconds that rank 0's main waited, and all its seconds of communication.
struct Waits {
  double exposed = 0;                                                 // seconds that main waited, per act
  double communication = 0;                                           // seconds in collectives, on any stream, per act
  double optimizer = 0;                                               // seconds in AdamW, per act
  std::vector<double> all_exposed, all_communication, all_optimizer;  // one per act
};
Prepared prepare_zero(Rank me, const ZeroShape& shape, int stage, Purpose purpose, Waits* waits);

/// Returns the memory of a step on the rank that needs most. For each kind of state, at rest and at its peak: the
/// formula Ψ/p, the bytes in the ledger, and an explanation of the difference to the byte. One row each: stage, ranks,
/// category, moment ("resident" or "peak"), predicted_bytes, measured_bytes, explained_bytes, reason.
std::vector<Row> weigh(const RunOptions& options, const ZeroShape& shape, int stage);

}  // namespace lockstep::bench
