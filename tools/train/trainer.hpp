// Trains one rank: the serial program, or its part of the 3D step (25.2).
#pragma once

#include <memory>
#include <vector>

#include "common/chunk.hpp"
#include "common/gpt/model/serial.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "labs/week22_zero/mixed_precision.hpp"
#include "labs/week23_tensor_parallel/sequence_chunks.hpp"
#include "tools/train/checkpoint.hpp"
#include "tools/train/plan.hpp"

namespace lockstep::train {

/// All calls are collective over the run, on main.
class Trainer {
 public:
  virtual ~Trainer() = default;

  /// Sequences of the global batch that this rank's replica works on, and where their tokens go.
  virtual ChunkRange shard() const = 0;
  virtual const std::vector<Batch>& batches() const = 0;
  /// This rank's part of these sequences' positions.
  virtual week23::ContextShare context() const { return {}; }
  /// One optimizer step on the batches.
  virtual void step(float learning_rate, float max_norm) = 0;
  /// After the last one.
  virtual void end_steps() {}
  /// Scalars of the last step: the loss of the ranks together is Σ loss · loss_share().
  virtual const StepScalars& scalars() const = 0;
  virtual float loss_share() const = 0;
  /// loss[0] += this rank's part of the batches' loss, one of `batches` global batches, by a forward pass alone.
  virtual void add_validation_loss(Slice loss, std::size_t batches) = 0;
  /// sum[0] += Σ value² over the whole model, the same on every rank.
  virtual void add_value_squares(Slice sum) = 0;

  virtual std::vector<Optimizer*> optimizers() = 0;
  virtual week22::LossScaler* scaler() { return nullptr; }
  virtual week21::LocalSgd* outer() { return nullptr; }
  /// The part of the serial model that each optimizer has, for checkpoints.
  virtual std::vector<Held> held() = 0;
  /// After the state of the optimizers, and the outer one's, was read from a checkpoint.
  virtual void restored() {}
  /// Before the end of a run that has stepped, or where something else is sent: waits until nothing is in flight.
  virtual void finish() {}
  /// By this rank so far; while values are gathered behind the next forward, until those gathers began.
  virtual std::uint64_t bytes_sent() = 0;
  /// The trained model, on rank 0; elsewhere nothing. No more steps are made.
  virtual std::unique_ptr<Gpt> model() = 0;
};

/// Collective over the run, at set-up.
std::unique_ptr<Trainer> make_trainer(Rank me, const TrainPlan& plan);

/// Memory that a rank of this stage holds as it trains, by the ledger of a dry run. No rank of the stage has more,
/// since the first replica has the longest shards. Two steps, since the second begins with the activations' memory of
/// the first, and a validation; more does not happen later.
Memory dry_run_memory(const TrainPlan& plan, int stage);

}  // namespace lockstep::train
