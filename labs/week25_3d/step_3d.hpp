// Exercise 25.2: the 3D training step, built from the parts that you have. On any mesh it equals the serial step: the
// same losses, the same gradient norm, the same new values, up to rounding.
//
// Narayanan et al. (arXiv 2104.04473), section 3; Rajbhandari et al. (arXiv 1910.02054), section 8 (ZeRO with tensor
// parallelism); Korthikanti et al. (arXiv 2205.05198), section 4.2.
//
//   Worker worker = make_worker(make_mesh(me, options.mesh), options);  // labs/trainer/worker.hpp
//   for (…) {
//     upload worker.batches;
//     accumulate_gradients(worker);
//     update(worker, learning_rate, max_norm);
//   }
#pragma once

#include <cstdint>

#include "labs/week25_3d/worker.hpp"

namespace lockstep::week25 {

/// A rank's share of a gradient, compared with the other ranks of one axis.
enum class Has : std::uint8_t {
  alone,       ///< no other rank of the axis has this tensor
  sharded,     ///< its own elements; the others have the others
  replicated,  ///< the same numbers as the others
  partial,     ///< one term of the sum over the axis, which the gradient is
};
/// Gradients of all kinds that a step has.
enum class Gradient : std::uint8_t {
  qkv_weight,  ///< column-parallel
  qkv_bias,
  projection_bias,        ///< of the row-parallel layer
  norm_gain,              ///< without sequence parallelism: every rank of tp has all rows
  norm_gain_of_own_rows,  ///< with it: every rank of tp has rows of its own (23.5)
  untied_embedding,       ///< of tokens, sharded by vocabulary; the head has a matrix of its own
  tied_embedding,         ///< the same, where the head, on the last stage, uses this matrix too
};
struct OnAxes {
  Has tp, pp, dp;
};

/// Part a. What a rank has of this gradient on each axis, with dp, tp and pp all 2 or more, when the schedule has ended
/// and nothing has been reduced since the backward passes. The other parts follow from it.
OnAxes on_axes(Gradient gradient);

/// Part b. The gradients of a step: runs this stage's schedule (24.1), which tells the engines as it goes which
/// gradients are final; ends the engines' window (21.7, 22.2 …), so that gradient shares are averages over dp; then
/// does the two other sums. With worker.norms_in_parts the gradients of norms are summed over tp (23.5). A token
/// embedding that is on two stages (worker.stage->shares_embedding(); the engine is the second) is summed over them.
/// worker.scalars.loss starts from 0.
void accumulate_gradients(Worker& worker);

/// Part c. squares[0] = Σ g² over the whole model, on every rank: every parameter counts once, however many ranks hold
/// its gradient. Tensor-parallel ranks all hold replicated tensors; the last stage also holds the first one's
/// embedding; all replicas hold everything, unless worker.sharded.
void sum_of_squares(const Worker& worker, Slice squares);

/// Part d. From the gradients to the next step: clips them to max_norm (0: no limit) by the norm of the whole gradient,
/// updates, and zeroes them. scalars.squares becomes the squared norm. With worker.scaler (22.5) a gradient that is not
/// finite on any rank makes all ranks skip the step, and the scale adapts.
void update(Worker& worker, float learning_rate, float max_norm);

}  // namespace lockstep::week25
