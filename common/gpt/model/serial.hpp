// The serial training step: the reference that every parallel run is compared with. It is written only here.
#pragma once

#include <span>

#include "common/gpt/model/gpt.hpp"
#include "common/gpt/model/optimizer.hpp"

namespace lockstep {

/// Adds up gradients and loss of the microbatches in the given order: gradients (+=), and loss[0] += factor · Σ over
/// tokens. With factor = 1 / (tokens of the global batch), microbatches of unequal size get the correct weights. Calls
/// `ready` during the last microbatch only: no gradient is final before. `saved` fits the largest microbatch.
/// Multiplies the gradients, but not the loss, by `gradient_scale` (one f32, or empty); see cross_entropy.
void accumulate_gradients(Rank me, const Gpt& gpt, std::span<const Batch> microbatches, Activations& saved, Slice loss,
                          float factor, const GradientReady& ready = {}, Slice gradient_scale = {});

/// Scalars of a training step; allocated once.
struct StepScalars {
  Slice loss;     // one f32: the last step's loss
  Slice squares;  // one f32: the squared gradient norm of the last step
  Slice factor;   // one f32: the factor that clipping applied
};
StepScalars allocate_step_scalars(Rank me);

struct StepOptions {
  float learning_rate = 1e-3f;
  float max_norm = 1;  // limit for the gradient norm; 0: no clipping
};

/// Clips, updates, and zeroes the gradients for the next step. They must be complete (and, in parallel runs, reduced).
void finish_step(Rank me, Gpt& gpt, Optimizer& optimizer, StepScalars& scalars, StepOptions options);

/// Takes one step on `microbatches`, whose tokens make up the global batch. The mean loss per token is in scalars.loss.
void serial_step(Rank me, Gpt& gpt, Optimizer& optimizer, std::span<const Batch> microbatches, Activations& saved,
                 StepScalars& scalars, StepOptions options);

/// loss[0] += factor · Σ over tokens, without gradients: validation.
void add_validation_loss(Rank me, const Gpt& gpt, const Batch& batch, Activations& saved, Slice loss, float factor);

}  // namespace lockstep
