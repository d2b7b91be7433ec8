// Makes the worker of a 3D run, and finds its part of the model.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/gpt/checkpoint/pieces.hpp"
#include "labs/trainer/options_3d.hpp"
#include "labs/week25_3d/worker.hpp"

namespace lockstep::week25 {

PipelineShape pipeline_shape(const Options3d& options);
/// A stage's schedule for training. forward_schedule: for a forward pass alone.
StageSchedule stage_schedule(const Options3d& options, int stage);
StageSchedule forward_schedule(const PipelineShape& shape);

/// Returns the layers of a model with this config, those of 23.4 or, between sharded rows, of 23.5; its `tensor` is
/// {tp.group.rank(), tp.group.size(), …}. With `overlap_scatter`, under sequence parallelism, the gradient of a
/// column-parallel layer's input is reduce-scattered on tp.comm while main computes the weight gradient (23.1d does so
/// with an all-reduce, 23.5 does not), like Megatron-LM since 2022.
std::shared_ptr<const Layers> make_layers(const week23::TensorParallel& tp, const GptConfig& config,
                                          bool overlap_scatter = false);

/// Allocates memory for a replica's part of the global batch, split into microbatches; with cp, for this rank's
/// positions in it.
std::vector<Batch> allocate_batches(Rank me, const Options3d& options, int replica);

/// Groups of mesh.dp, if the options require them: the ranks that share a replica's sequences, and those that share its
/// state (22.8).
struct DpGroups {
  std::optional<Rank> sharers;
  std::optional<week21::Hierarchy> sharding;
  std::optional<Rank> alone;  ///< of a model with experts: this rank, the only one that has its own
};
/// Splits mesh.dp. Collective over `mesh.world`.
DpGroups dp_groups(const Mesh& mesh, const Options3d& options);

/// Collective over `mesh.world`, at set-up. The options pass check(). If the state is sharded within groups, the
/// worker's mesh.dp is this rank's group.
Worker make_worker(const Mesh& mesh, const Options3d& options, const DpGroups& groups);
inline Worker make_worker(const Mesh& mesh, const Options3d& options) {
  return make_worker(mesh, options, dp_groups(mesh, options));
}

/// With overlap_gather, makes main wait for the gathers that the last step's update started. Call it before the end of
/// a run.
void finish_gathers(const Worker& worker);

/// Returns the elements of the serial model that a rank at `here` has in its engines' flat values, one engine after the
/// other. A run's `at` counts over all engines.
std::vector<checkpoint::Run> whole_runs(const Options3d& options, const Coordinate& here);
/// Returns the number of elements in each engine's flat values on a stage.
std::vector<std::size_t> engine_elements(const Options3d& options, int stage);

/// Returns the weight of each token's loss: with it, the average over replicas is the mean over `batches` global
/// batches.
float token_factor(const Options3d& options, std::size_t batches = 1);

}  // namespace lockstep::week25
