// Exercise 22.4: ZeRO stage 3, which PyTorch calls fully sharded data parallelism (FSDP). Each rank keeps its chunk of
// every unit: of values, gradients and optimizer state. The whole values of a unit exist while the model uses them:
// gathered just in time, freed after use, gathered again for the backward pass.
//
// Follows Rajbhandari et al. (arXiv 1910.02054), section 5.3, and Zhao et al., "PyTorch FSDP: Experiences on Scaling
// Fully Sharded Data Parallel", VLDB 2023 (arXiv 2304.11277).
//
//   Gpt gpt(dp, config, seed, Owns::nothing);
//   auto fsdp = make_fsdp(dp, {gpt.parameters().list, units, gpt_usage_order(config), begin}, options,
//                         [&](std::size_t i, Slice value, Slice gradient) { gpt.bind(i, value, gradient); });
//   for (…) {
//     for (each microbatch) {
//       gpt.forward(…, [&](std::size_t piece) { fsdp->before(Pass::forward, piece); });
//       fsdp->end(Pass::forward);
//       gpt.backward(…, [&](std::size_t piece) { fsdp->before(Pass::backward, piece); });
//       fsdp->end(Pass::backward);
//     }
//     fsdp->step(learning_rate);
//   }
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/gpt/model/optimizer.hpp"
#include "common/gpt/model/units.hpp"
#include "labs/week22_zero/usage_order.hpp"

namespace lockstep::week22 {

/// Types and where they are used. PyTorch's MixedPrecision(param_dtype, reduce_dtype), and the type of the shards.
struct ShardPrecision {
  DType keep = DType::f32;     ///< of the shares of values and gradients that a rank keeps
  DType compute = DType::f32;  ///< of gathered values, of what the model computes with, and of its gradients
  DType reduce = DType::f32;   ///< in which gradients are summed over the ranks
};

/// Two decisions that are not the wrapper's own, which 22.9 writes (sharding_policy.hpp). By themselves no unit is
/// gathered ahead, and all three types are one.
struct FsdpPolicies {
  /// Before each piece: `used` units of this pass's `order` have been used or are about to be, `gathered` of them were
  /// gathered, and gather(unit) starts to gather another. Returns how many were gathered then.
  using GatherAhead = std::size_t (*)(const std::vector<std::size_t>& order, std::size_t used, std::size_t gathered,
                                      int prefetch, const std::function<void(std::size_t unit)>& gather);
  /// Returns `values` if they are of this type, else a copy converted to it.
  using InType = Slice (*)(Rank queue, const Slice& values, DType type);

  GatherAhead gather_ahead = [](const auto&, std::size_t, std::size_t gathered, int, const auto&) { return gathered; };
  InType in_type = [](Rank, const Slice& values, DType) { return values; };
};

struct FsdpOptions {
  int prefetch = 1;  ///< units gathered ahead of their use, on the queue "comm"; 0: none, everything runs on main
  ShardPrecision precision;
  AdamW adamw;
  FsdpPolicies policies = {};
};

/// Writes the initial values of elements first, first + 1, … of tensor `tensor`, as many as `part` has.
using BeginPart = std::function<void(Rank me, std::size_t tensor, std::size_t first, Slice part)>;

/// Binds the model's tensor to its value, and in the backward pass to memory for its gradient (zeros at first); empty
/// slices unbind both.
using BindTensor = std::function<void(std::size_t tensor, Slice value, Slice gradient)>;

struct ShardedModel {
  std::vector<Parameter> table;
  std::vector<Unit> units;  ///< hold every tensor of the table once, in order
  UsageOrder usage_order;
  BeginPart begin;
};

/// Values are gathered in regions "all_gather", gradients reduced in regions "reduce_scatter", each with the bytes of
/// the whole unit in the type in which it is sent. Gradients are summed as 21.2's ring does, so the weights are those
/// of plain DDP, bit for bit; a rank averages only its own chunk of the sums.
class Fsdp {
 public:
  virtual ~Fsdp() = default;

  /// Before the model works on piece `piece` of a pass: units that no later piece of this pass uses are resharded (and
  /// in a backward pass their gradients reduced); those that this one uses are unsharded and their tensors bound. A
  /// unit that is used twice in a pass is gathered once and stays from its first use to its last. All calls are made on
  /// the main queue.
  virtual void before(Pass pass, std::size_t piece) = 0;

  /// After the last piece: nothing is gathered any more. After a backward pass the shares of the gradients are complete
  /// (in main's order of work). Every backward pass of a window adds its average to them.
  virtual void end(Pass pass) = 0;

  /// This rank's chunk of each unit.
  virtual std::vector<Slice> value_shares() const = 0;
  virtual std::vector<Slice> gradient_shares() const = 0;

  /// One AdamW step on this rank's shares; afterwards the gradients' are zero. Nothing is sent.
  virtual void step(float learning_rate, Slice gradient_factor = {}, Slice skip = {}, Slice skipped = {}) = 0;

  /// One for each unit, with the state of this rank's chunk of it.
  virtual std::vector<Optimizer>& optimizers() = 0;
};

/// Collective over `dp`, at set-up. No rank ever holds a whole model.
std::unique_ptr<Fsdp> make_fsdp(Rank dp, ShardedModel model, FsdpOptions options, BindTensor bind);

}  // namespace lockstep::week22
