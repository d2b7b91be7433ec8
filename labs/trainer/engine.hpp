// The engines of stages 0 to 3, built from 21.7, 22.2, 22.3, 22.4, 22.8 and 22.9. Used by the trainer, and by ./lab
// bench zero.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/gpt/model/stage.hpp"
#include "labs/trainer/forward_gathers.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week21_data_parallel/hierarchical_all_reduce.hpp"
#include "labs/week22_zero/sharding_policy.hpp"
#include "labs/week25_3d/engine.hpp"

namespace lockstep::week25 {

struct EngineOptions {
  int zero = 0;  ///< the ZeRO stage
  AdamW adamw;
  std::size_t bucket_bytes = std::size_t{25} << 20;  ///< bucket size of gradients, stages 0 and 1
  week22::Wrapping wrapping;                         ///< stages 2 and 3: the unit that is reduced or gathered at once
  bool overlap = true;                               ///< communicate on a second stream
  int prefetch = 1;                                  ///< stage 3 with overlap: units gathered ahead
  int shard_group = 0;        ///< stage 3: number of neighbouring ranks that hold one copy of the state (22.8); 0: all
                              ///< ranks
  int microbatches = 1;       ///< per replica and step; if they are unequal, the first is the largest
  DType reduce = DType::f32;  ///< dtype in which gradients are summed; stages 1 and 2 use that of the gradients
  week21::MakeAllReduce make_all_reduce;  ///< stage 0: the all-reduce; empty: a ring that sums in `reduce`
  bool local = false;                     ///< stage 0: ranks step by their own gradients; 21.12 synchronises parameters
  bool some_alone = false;  ///< stage 0, of a model with experts: a rank's gradient pieces are what it alone has, and
                            ///< its chunk of what all ranks have
  std::function<void(const Parameters&)> average;  ///< stage 0: averages gradients when a window ends; empty: DDP
};

/// Returns the bucket sizes of stages 0 and 1: the first bucket is smaller, so that communication starts early.
week21::DdpOptions bucket_options(std::size_t bucket_bytes, bool overlap);

/// Returns the slices that a model must allocate for an engine of this stage; the rest is bound while it is needed.
Owns owned_by_model(int stage);

/// The tensors that an engine manages, as a model provides them.
struct EngineModel {
  DType storage = DType::f32;  ///< dtype of values and gradients
  Parameters parameters;       ///< the table, and the slices of owned_by_model
  UsageOrder usage_order;      ///< for stages 2 and 3, and for gathers
  week22::BindTensor bind;
  week22::BeginPart begin;
};

/// Parses "model", "block", "layer", or a minimum number of elements. Throws Error(usage) for anything else.
week22::Wrapping parse_wrapping(const std::string& name);

/// Collective over `dp`, at set-up. With `gathers`, which all engines of a rank share, stages 1 and 2 gather new values
/// behind the next forward. `groups`: the groups of dp, if each holds a copy of the state. Throws Error(usage) for an
/// unknown stage.
std::unique_ptr<Engine> make_engine(Rank dp, EngineModel model, const EngineOptions& options,
                                    std::shared_ptr<ForwardGathers> gathers = nullptr,
                                    const std::optional<week21::Hierarchy>& groups = {});

}  // namespace lockstep::week25
