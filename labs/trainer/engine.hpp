// The engines of stages 0 to 3, made of 21.7, 22.2, 22.3, 22.4 and 22.8. For the trainer, and for ./lab bench zero.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/gpt/model/stage.hpp"
#include "labs/trainer/forward_gathers.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week21_data_parallel/hierarchical_all_reduce.hpp"
#include "labs/week22_zero/fsdp.hpp"
#include "labs/week25_3d/engine.hpp"

namespace lockstep::week25 {

struct EngineOptions {
  int zero = 0;  ///< the stage
  AdamW adamw;
  std::size_t bucket_bytes = std::size_t{25} << 20;  ///< of gradients, stages 0 and 1
  week22::Wrapping wrapping;                         ///< stages 2 and 3: what is reduced, or gathered, at once
  bool overlap = true;                               ///< communicate on a second queue
  int prefetch = 1;                                  ///< stage 3, with overlap: units gathered ahead
  int shard_group = 0;        ///< stage 3: neighbouring ranks that hold one copy of the state (22.8); 0: all ranks
  int microbatches = 1;       ///< of each replica and step; where they are unequal the first is the largest
  DType reduce = DType::f32;  ///< in which gradients are summed; stages 1 and 2: their own
  week21::MakeAllReduce make_all_reduce;  ///< of stage 0; empty: a ring that sums in `reduce`
  bool local = false;  ///< stage 0: ranks step by gradients of their own, and others agree on values (21.12)
};

/// The buckets of stages 0 and 1: the first is smaller, so that communication starts early.
week21::DdpOptions bucket_options(std::size_t bucket_bytes, bool overlap);

/// What a model must have allocated for an engine of this stage; the rest is bound while it is needed.
Owns owned_by_model(int stage);

/// The tensors that an engine keeps, as a model has them.
struct EngineModel {
  DType storage = DType::f32;  ///< of values and gradients
  Parameters parameters;       ///< the table, and what owned_by_model says
  UsageOrder usage_order;      ///< stages 2 and 3, and with gathers
  week22::BindTensor bind;
  week22::BeginPart begin;
};

/// "model", "block", "layer", or a least number of elements. Throws Error(usage) for anything else.
week22::Wrapping parse_wrapping(const std::string& name);

/// Whether each group of ranks holds a whole copy of the state.
inline bool is_hybrid(const EngineOptions& options, int ranks) {
  return options.zero == 3 && options.shard_group > 0 && options.shard_group < ranks;
}

/// Collective over `dp`, at set-up. With `gathers`, which all engines of a rank share, stages 1 and 2 gather new values
/// behind the next forward. `groups`: of dp, where is_hybrid. Throws Error(usage) for an unknown stage.
std::unique_ptr<Engine> make_engine(Rank dp, EngineModel model, const EngineOptions& options,
                                    std::shared_ptr<ForwardGathers> gathers = nullptr,
                                    const std::optional<week21::Hierarchy>& groups = {});

}  // namespace lockstep::week25
