// Makes the worker of a 3D run, and says which part of the model it has.
#pragma once

#include <vector>

#include "common/gpt/checkpoint/pieces.hpp"
#include "labs/trainer/options_3d.hpp"
#include "labs/week25_3d/worker.hpp"

namespace lockstep::week25 {

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
/// Elements of each engine's flat values on a stage.
std::vector<std::size_t> engine_elements(const Options3d& options, int stage);

/// sum[0] += Σ value² over the whole model, every parameter once: the same on every rank.
void add_value_squares(const Worker& worker, Slice sum);

/// What each token's loss counts: the average over replicas is then the mean over `batches` global batches.
float token_factor(const Options3d& options, std::size_t batches = 1);

/// loss[0] += the loss of the batches by a forward pass alone, scaled by `factor`; on the last stage.
void add_validation_loss(Worker& worker, Slice loss, float factor);

}  // namespace lockstep::week25
