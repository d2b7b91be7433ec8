// Exercise 22.2: ZeRO stage 1. Data parallelism in which each rank keeps the optimizer's state only for its share of
// the parameters, updates that share, and sends it to the others.
//
// Follows Rajbhandari, Rasley, Ruwase and He, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
// SC'20 (arXiv 1910.02054), section 5.1. PyTorch: torch.distributed.optim.ZeroRedundancyOptimizer.
//
//   auto zero = make_zero1(dp, model.parameters(), {}, adamw);
//   for (…) {
//     fill(dp, gradients, 0);
//     model.backward(batch, [&](std::size_t i) { zero->ddp().gradient_ready(i); });
//     zero->ddp().finish();      // the gradients of my share are averages; the others are not
//     zero->step(learning_rate); // every rank has all new values
//   }
#pragma once

#include <memory>
#include <vector>

#include "common/gpt/model/optimizer.hpp"
#include "labs/week21_data_parallel/ddp.hpp"

namespace lockstep::week22 {

/// Clipping by the norm of the whole gradient, of which each rank has only shares: factor[0] = the factor for them so
/// that the norm over all ranks is at most max_norm; sum[0] = the squared norm, the same on every rank. Both one f32;
/// `shares` are this rank's, disjoint from those of the others.
void clip_shares(Rank dp, Slice factor, Slice sum, const std::vector<Slice>& shares, float max_norm);

class Zero1 {
 public:
  virtual ~Zero1() = default;

  /// Runs during the backward passes: 21.7's DDP, whose collective sums only this rank's chunk of each bucket, as
  /// 21.2's ring does. So the weights are those of plain DDP, bit for bit. Everything that DDP does (order, overlap,
  /// no_sync) it does here too.
  virtual week21::Ddp& ddp() = 0;

  /// This rank's share: chunk `rank` of p of each bucket's gradients, averages after ddp().finish().
  virtual std::vector<Slice> gradient_shares() const = 0;

  /// One AdamW step on this rank's share; then every rank has all new values. `gradient_factor`, `skip` and
  /// `skipped` as of adamw, the same values on every rank.
  virtual void step(float learning_rate, Slice gradient_factor = {}, Slice skip = {}, Slice skipped = {}) = 0;

  /// One for each bucket, with the state of this rank's chunk of it.
  virtual std::vector<Optimizer>& optimizers() = 0;
};

/// Collective over `dp`, at set-up: broadcasts rank 0's values, then makes the buckets and this rank's optimizer state.
/// Values and gradients are replicated on every rank.
std::unique_ptr<Zero1> make_zero1(Rank dp, Parameters parameters, week21::DdpOptions buckets, AdamW options);

}  // namespace lockstep::week22
