// Given: everything that one rank of a 3D run has, made of your weeks 21 to 24 and of 25.1.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/gpt/checkpoint/pieces.hpp"
#include "common/gpt/model/serial.hpp"
#include "common/gpt/model/stage.hpp"
#include "labs/week22_zero/mixed_precision.hpp"
#include "labs/week23_tensor_parallel/parallel_linear.hpp"
#include "labs/week24_pipeline/stages.hpp"
#include "labs/week25_3d/engine.hpp"
#include "labs/week25_3d/options_3d.hpp"

namespace lockstep::week25 {

struct Worker {
  Mesh mesh;
  week23::TensorParallel tp;   ///< on mesh.tp
  week24::Pipeline pipeline;   ///< on mesh.pp
  StageSchedule schedule;      ///< of this stage
  std::vector<Batch> batches;  ///< of this replica; to be filled before each step
  std::unique_ptr<GptStage> stage;
  /// Its tensors on the axis dp. Where the token embedding is on another stage too it has an engine of its own, the
  /// second: so both stages cut it alike.
  std::vector<std::unique_ptr<Engine>> engines;
  StepScalars scalars;                       ///< loss: this rank's, of tokens of this replica, × dp
  std::optional<week22::LossScaler> scaler;  ///< of fp16
  bool norms_in_parts = false;               ///< sequence parallelism: each rank has its rows' part of norms' gradients
  bool sharded = false;                      ///< ZeRO: ranks of dp have different parts of the gradients
  bool values_sharded = false;               ///< ZeRO-3: of the values too

  /// Of all engines.
  std::vector<Slice> gradient_shares() const;
  std::vector<Optimizer*> optimizers() const;
};

/// A stage's steps of training, and of a forward pass alone.
StageSchedule stage_schedule(const Options3d& options, int stage);
StageSchedule forward_schedule(const PipelineShape& shape);

/// Room for a replica's part of the global batch, cut into microbatches.
std::vector<Batch> allocate_batches(Rank me, const Options3d& options, int replica);

/// Collective over `mesh.world`, at set-up. The options pass check().
Worker make_worker(const Mesh& mesh, const Options3d& options);

/// Which elements of the serial model a rank at `here` has in its engines' flat values, one engine after the other. A
/// run's `at` counts over all of them.
std::vector<checkpoint::Run> whole_runs(const Options3d& options, const Coordinate& here);
/// The tensors of each engine on a stage, with places in its flat values.
std::vector<std::vector<Parameter>> engine_tables(const Options3d& options, int stage);
/// Elements of each engine's flat values on a stage.
std::vector<std::size_t> engine_elements(const Options3d& options, int stage);

/// sum[0] += Σ value² over the whole model, every parameter once: the same on every rank.
void add_value_squares(const Worker& worker, Slice sum);

/// What each token's loss counts: the average over replicas is then the mean over `batches` global batches.
float token_factor(const Options3d& options, std::size_t batches = 1);

/// loss[0] += the loss of the batches by a forward pass alone, scaled by `factor`; on the last stage.
void add_validation_loss(Worker& worker, Slice loss, float factor);

}  // namespace lockstep::week25
