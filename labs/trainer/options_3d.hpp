// Given: the options of a 3D run, and the check that rejects invalid combinations.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/gpt/model/config.hpp"
#include "labs/trainer/engine.hpp"
#include "labs/week22_zero/checkpointing.hpp"
#include "labs/week25_3d/mesh.hpp"

namespace lockstep::week25 {

/// Computes and averages mixtures of experts (23.7), for a model that has them: ./lab train and scale link it.
struct MixtureCode {
  std::function<std::shared_ptr<const Layers>(Rank group, const GptConfig& config)> layers;
  void (*average)(Rank dp, Rank alone, const Parameters& routers_and_experts) = nullptr;  ///< gradients
};

struct Options3d;

/// Makes the dropouts (23.8) of a rank, given the number of steps that it has done: ./lab train and scale link it.
using MakeDropout = std::function<Dropout(const Options3d& options, const Coordinate& here, week21::StepsDone steps)>;

/// Options of the run and of its engines. With several stages `zero` is 0 or 1; `overlap` also applies to
/// tensor-parallel collectives.
struct Options3d : EngineOptions {
  GptConfig model;  ///< the whole model; its storage is the dtype of values, activations and gradients
  MeshShape mesh;   ///< its axis dp has data_ranks()
  /// Ranks that share a replica's sequences, in zig-zag order (23.6). They average gradients with the replicas, so they
  /// are neighbours on the axis dp.
  int cp = 1;
  AxisOrder order = kMegatronOrder;
  std::size_t batch = 1;     ///< sequences of the global batch, on any mesh
  std::size_t sequence = 0;  ///< tokens per sequence
  std::string schedule = "1f1b";
  int chunks = 1;  ///< per stage, for interleaved; 2 in a V

  bool sequence_parallel = false;  ///< requires tp > 1
  bool overlap_scatter = false;    ///< with sequence parallelism: scatter input gradients behind weight gradients
  bool overlap_gather = false;     ///< stages 1 and 2: gather new values behind the next forward
  week22::Recompute recompute = week22::Recompute::none;
  bool stops_early = false;         ///< recomputing a whole block ends when all that its backward reads is there
  std::optional<float> loss_scale;  ///< initial value of the dynamic loss scale, for fp16
  int loss_scale_interval = 2000;
  std::uint64_t seed = 1;
  MakeDropout dropout;  ///< empty: none
  MixtureCode mixture;  ///< of a model with experts, which all ranks along dp share

  bool has_experts() const { return model.architecture.experts > 0; }
  /// Returns the part of the model on tensor-parallel rank `tp`: a shard of every layer, as in 23.1 and 23.3; of a
  /// mixture, with the experts of rank `dp`.
  GptConfig part(int tp, int dp = 0) const;
  int data_ranks() const { return mesh.dp; }  ///< ranks that average gradients: replicas() · cp
  int replicas() const { return data_ranks() / cp; }
  /// True if several groups of ranks hold a whole copy of the state each (22.8).
  bool is_hybrid() const { return zero == 3 && shard_group > 0 && shard_group < data_ranks(); }
  int state_ranks() const { return is_hybrid() ? shard_group : data_ranks(); }  ///< ranks that hold one copy of it
  /// Number of sequences in a replica's largest microbatch.
  std::size_t largest_microbatch() const;
};

/// Throws Error(usage) with one sentence that gives the reason if the options cannot work or make no sense.
void check(const Options3d& options);

/// Returns the pieces of gpt_usage_order in each part (placed by chunk_of_part), balanced by cost including embedding,
/// head and recomputation (24.1). pp·chunks + 1 elements.
std::vector<std::size_t> stage_pieces(const Options3d& options);

/// Returns the indices of a stage's tensors in gpt_parameter_table(options.part(…)), in order.
std::vector<std::size_t> stage_tensors(const Options3d& options, int stage);
/// Returns the number of elements in these tensors, on one tensor-parallel rank.
std::size_t stage_parameters(const Options3d& options, int stage);

}  // namespace lockstep::week25
