// One training step of a GPT whose training state is sharded by a ZeRO stage, for measuring its time and its memory.
#pragma once

#include <memory>
#include <vector>

#include "bench/support/measure.hpp"
#include "bench/support/step_shape.hpp"
#include "common/support/json/results.hpp"
#include "labs/trainer/engine.hpp"

namespace lockstep::bench {

/// Its sequences are those of a rank and microbatch.
struct ZeroShape : StepShape {
  week25::EngineOptions engine;  // with its stage
  int microbatches = 1;
};

/// Returns a GPT of about so many parameters: depth and width grow together, and the vocabulary makes up the rest.
GptConfig model_of_size(double parameters);

/// One rank's model, its training state and its data, for `bench zero` and `bench hsdp`.
class ZeroStep {
 public:
  /// Collective.
  ZeroStep(Rank me, const ZeroShape& shape);
  /// Runs a window of microbatches, and the optimizer.
  void act();
  /// After one act: the distance of this rank's values from those of one rank that takes the same step on the whole
  /// batch, relative to the step's length; NaN if nothing has moved.
  double error();
  /// The error below which a step is right: in 16 bits each gradient, and each sum of gradients, is rounded to 3
  /// digits.
  double tolerance() const;
  week25::Engine& engine() { return *engine_; }

 private:
  Rank me_;
  ZeroShape shape_;
  Gpt gpt_;
  std::unique_ptr<week25::Engine> engine_;
  Activations saved_;
  Slice loss_;
  std::vector<Batch> batches_;
};

/// Seconds of rank 0, one value per timed act.
struct Waits {
  std::vector<double> exposed;        // that its main waited
  std::vector<double> communication;  // in collectives, on any stream
  std::vector<double> optimizer;      // in AdamW
};
/// Prepares a step for `measure`, verified against the whole batch on one rank.
Prepared prepare_zero(Rank me, const ZeroShape& shape, Purpose purpose, Waits* waits);

/// Returns the memory of a step on the rank that needs most. For each kind of state, at rest and at its peak: the
/// formula Ψ/p, the bytes in the ledger, and an explanation of the difference to the byte. One row each: stage, ranks,
/// category, moment ("resident" or "peak"), predicted_bytes, measured_bytes, explained_bytes, reason.
std::vector<Row> weigh(const RunOptions& options, const ZeroShape& shape);

}  // namespace lockstep::bench
