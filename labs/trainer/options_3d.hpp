// Given: what a 3D run is asked to be, and what of it does not make sense.
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
  AxisOrder order = kMegatronOrder;
  std::size_t batch = 1;     ///< sequences of the global batch, whatever the mesh
  std::size_t sequence = 0;  ///< tokens of each
  int microbatches = 1;      ///< of each replica and step; where they are unequal the first is the largest
  std::string schedule = "1f1b";
  int chunks = 1;  ///< a stage, for interleaved

  bool sequence_parallel = false;  ///< with tp
  week22::Recompute recompute = week22::Recompute::none;
  std::optional<float> loss_scale;  ///< of fp16: where the dynamic scale begins
  int loss_scale_interval = 2000;
  std::uint64_t seed = 1;

  /// The part of the model that tensor-parallel rank `tp` has of every layer, cut as 23.1 and 23.3 say.
  GptConfig part(int tp) const;
  /// Sequences of a replica's largest microbatch.
  std::size_t largest_microbatch() const;
};

/// Throws Error(usage) with one sentence and its reason for what cannot work, or makes no sense.
void check(const Options3d& options);

/// The pieces of gpt_usage_order that each part has: part k is chunk k / pp of stage k % pp. By cost, embedding, head
/// and recomputation included (24.1). pp·chunks + 1 elements.
std::vector<std::size_t> stage_pieces(const Options3d& options);

/// Where a stage's tensors are in gpt_parameter_table(options.part(…)), in order.
std::vector<std::size_t> stage_tensors(const Options3d& options, int stage);
/// Elements of them, of one tensor-parallel rank.
std::size_t stage_parameters(const Options3d& options, int stage);

}  // namespace lockstep::week25
