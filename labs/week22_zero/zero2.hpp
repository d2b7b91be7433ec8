// Exercise 22.3: ZeRO stage 2. Stage 1, and a rank keeps the averaged gradients only of its share: the whole gradient
// of a unit (a bucket) exists from the moment the backward pass first writes to it until it has been reduced.
//
// Follows Rajbhandari et al. (arXiv 1910.02054), section 5.2. PyTorch: FullyShardedDataParallel with SHARD_GRAD_OP.
//
//   Gpt gpt(dp, config, seed, Owns::values);                            // no gradients of its own
//   auto zero = make_zero2(dp, gpt.parameters(), units, gpt_usage_order(config), options,
//                          [&](std::size_t i, Slice gradient) { gpt.bind(i, gpt.parameters().value(i), gradient); });
//   for (…) {
//     for (each microbatch) {
//       gpt.backward(…, [&](std::size_t piece) { zero->before_backward(piece); });
//       zero->end_backward();
//     }
//     zero->step(learning_rate);
//   }
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/gpt/model/optimizer.hpp"
#include "common/gpt/model/units.hpp"
#include "labs/week22_zero/usage_order.hpp"

namespace lockstep::week22 {

struct Zero2Options {
  bool overlap = true;  ///< reduce on the queue "comm", while main continues with the backward pass
  AdamW adamw;
};

/// Binds the gradient of the model's tensor `tensor` to memory, all zeros; an empty slice unbinds it.
using BindGradient = std::function<void(std::size_t tensor, Slice gradient)>;

class Zero2 {
 public:
  virtual ~Zero2() = default;

  /// Before the backward pass works on piece `piece`: units that no later piece uses are reduced, those that this one
  /// uses have gradients. All calls are made on the main queue.
  virtual void before_backward(std::size_t piece) = 0;

  /// After the last piece: the rest is reduced, and the shares are complete when it returns (in main's order of work).
  /// Every backward pass of a window adds its average to them.
  virtual void end_backward() = 0;

  /// This rank's chunk of each unit's gradients: the sum over the passes of the window of the averages over the ranks,
  /// which sum as 21.2's ring does: so the weights are those of plain DDP, bit for bit. A rank averages only its own
  /// chunk.
  virtual std::vector<Slice> gradient_shares() const = 0;

  /// One AdamW step on this rank's share; then every rank has all new values, and the shares are zero.
  virtual void step(float learning_rate, Slice gradient_factor = {}, Slice skip = {}, Slice skipped = {}) = 0;

  /// One for each unit, with the state of this rank's chunk of it.
  virtual std::vector<Optimizer>& optimizers() = 0;
};

/// Collective over `dp`, at set-up: broadcasts rank 0's values. `parameters` has the table and whole values; its
/// gradients are empty. The units hold every tensor once, in order.
std::unique_ptr<Zero2> make_zero2(Rank dp, Parameters parameters, std::vector<Unit> units,
                                  const UsageOrder& usage_order, Zero2Options options, BindGradient bind);

}  // namespace lockstep::week22
