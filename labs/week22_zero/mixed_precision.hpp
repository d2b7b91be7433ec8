// Exercise 22.5: mixed precision. Values, activations and gradients in 16 bits; in 32 bits what must not lose
// precision: the weights that the optimizer adds to, and sums. fp16 also needs its gradients scaled, by a factor that
// adapts itself.
//
// Follows Micikevicius et al., "Mixed Precision Training" (arXiv 1710.03740), section 3. PyTorch: FSDP's MixedPrecision
// and torch.amp.GradScaler.
//
//   LossScaler scaler = make_loss_scaler(me);
//   for (…) {
//     accumulate_gradients(me, gpt, microbatches, saved, loss, factor, ready, scaler.scale);   // scale · ∇loss
//     ddp->finish();                                                                           // averaged
//     scaled_step(me, gpt, optimizer, scaler, scalars, options, groups, ring_all_reduce);      // or skipped
//   }
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "common/gpt/model/serial.hpp"
#include "labs/week21_data_parallel/ddp.hpp"

namespace lockstep::week22 {

using week21::AllReduce;

/// Types and their uses.
struct Precision {
  DType parameter = DType::f32;  ///< what AdamW adds to and keeps: the master weights
  DType compute = DType::f32;    ///< values and activations of forward and backward, and so the gradients
  DType reduce = DType::f32;     ///< in which gradients are sent and added up
};
/// Given: "fp32", "bf16" and "fp16" compute and reduce in that type, on fp32 master weights. An unknown name is a USAGE
/// error.
Precision precision_of(std::string_view name);

// Part a: master weights ----------------------------------------------------------------------------------------------

/// One update of weights that are used in `working`'s type and kept in fp32: adds `update` (fp32) to `master`;
/// `working` becomes the new master, rounded. All equally long; where `working` is fp32 it may be `master` itself.
void apply_update(Rank me, Slice working, Slice master, Slice update);

// Part b: the type of sums over ranks ---------------------------------------------------------------------------------

/// Sums `data` over the group in type `reduce`, with `all_reduce`; the sum is rounded to data's type once. Needs
/// scratch of data.size() elements only where the types differ. Runs on whichever queue `me` is on.
void sum_in(Rank me, Slice data, DType reduce, const AllReduce& all_reduce);

// Parts c to e: the loss scale of fp16 --------------------------------------------------------------------------------

/// All on the device, one fp32 each, and equal on all ranks. The scale is a power of two, so that scaling rounds
/// nothing.
struct LossScaler {
  Slice scale;                 ///< what the gradients are multiplied by while they are fp16
  Slice inverse;               ///< 1 / scale
  Slice overflow;              ///< 1 if this step's gradients are not all finite, on any rank; else 0
  Slice good_steps;            ///< in a row, since the last overflow or growth
  Slice skipped;               ///< steps skipped so far
  Slice one;                   ///< always 1, to count with
  Slice grow;                  ///< scratch: 1 if the scale doubles now
  int growth_interval = 2000;  ///< good steps in a row after which it doubles
};
/// Given. `initial` is a power of two (else a USAGE error): PyTorch begins with 2^16.
LossScaler make_loss_scaler(Rank me, float initial = 65536, int growth_interval = 2000);

/// Part c. overflow = 1 on every rank of all `groups` if any element of any of `gradients`, on any of these ranks, is
/// infinite or not a number; else 0. Each rank passes its own gradients: after a reduce-scatter or with tensor
/// parallelism they differ. `groups` are all groups of the mesh (dp, tp, pp, …); together they reach every rank.
void find_overflow_everywhere(Rank me, LossScaler& scaler, const std::vector<Slice>& gradients,
                              std::span<const Rank> groups, const AllReduce& all_reduce);

/// Part d. `squares` is Σ g² of the scaled gradients, and becomes that of the true ones. `factor` becomes what the
/// scaled gradients must be multiplied by so that the true ones' norm is at most max_norm (0: no limit): one fp32 each.
void unscale(Rank me, const LossScaler& scaler, Slice factor, Slice squares, float max_norm);

/// Part d. From gradients that are complete, averaged and still scaled, to the next step: AdamW, unless a gradient
/// overflowed on any rank, in which case nothing is updated; the next scale; gradients zeroed. scalars.squares becomes
/// the squared norm of the true gradients. The host learns none of this: no read.
void scaled_step(Rank me, Gpt& gpt, Optimizer& optimizer, LossScaler& scaler, StepScalars& scalars, StepOptions options,
                 std::span<const Rank> groups, const AllReduce& all_reduce);

/// Part e. After a step: an overflow halves the scale, growth_interval good steps in a row double it. Also counts: an
/// overflow is one more skipped step, and good steps count from 0 after an overflow and after a growth.
void update_scale(Rank me, LossScaler& scaler);

}  // namespace lockstep::week22
