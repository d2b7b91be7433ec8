// Given: the options of a 3D run, and the check that rejects those that do not fit together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/gpt/model/config.hpp"
#include "labs/trainer/engine.hpp"
#include "labs/week22_zero/checkpointing.hpp"
#include "labs/week25_3d/mesh.hpp"

namespace lockstep::week25 {

/// What its engines are asked to be, and the rest. With several stages `zero` is 0 or 1; `overlap` is of
/// tensor-parallel sums too.
struct Options3d : EngineOptions {
  GptConfig model;  ///< the whole; its storage is the type of values, activations and gradients
  MeshShape mesh;
  /// Ranks that share a replica's sequences, in zig-zag (23.6). They sum gradients as replicas do, so they are
  /// neighbours on the axis dp: mesh.dp is replicas() · cp.
  int cp = 1;
  AxisOrder order = kMegatronOrder;
  std::size_t batch = 1;     ///< sequences of the global batch, whatever the mesh
  std::size_t sequence = 0;  ///< tokens of each
  std::string schedule = "1f1b";
  int chunks = 1;  ///< a stage, for interleaved; of zb-v 2

  bool sequence_parallel = false;  ///< with tp
  bool overlap_scatter = false;    ///< with it: input gradients are scattered behind the product for the weights'
  bool overlap_gather = false;     ///< stages 1 and 2: gather new values behind the next forward
  week22::Recompute recompute = week22::Recompute::none;
  std::optional<float> loss_scale;  ///< of fp16: where the dynamic scale begins
  int loss_scale_interval = 2000;
  std::uint64_t seed = 1;

  /// The part of the model that tensor-parallel rank `tp` has of every layer, sharded as 23.1 and 23.3 say.
  GptConfig part(int tp) const;
  int replicas() const { return mesh.dp / cp; }
  /// Sequences of a replica's largest microbatch.
  std::size_t largest_microbatch() const;
};

/// Throws Error(usage) with one sentence and its reason for what cannot work, or makes no sense.
void check(const Options3d& options);

/// The pieces of gpt_usage_order that each part has (chunk_of_part says whose it is). By cost, embedding, head
/// and recomputation included (24.1). pp·chunks + 1 elements.
std::vector<std::size_t> stage_pieces(const Options3d& options);

/// Where a stage's tensors are in gpt_parameter_table(options.part(…)), in order.
std::vector<std::size_t> stage_tensors(const Options3d& options, int stage);
/// Elements of them, of one tensor-parallel rank.
std::size_t stage_parameters(const Options3d& options, int stage);

/// FLOP of the model in one step, forward and backward, attention counted whole as published figures do (Narayanan et
/// al., arXiv 2104.04473, section 3 and appendix).
double published_flop(const Options3d& options);

}  // namespace lockstep::week25
