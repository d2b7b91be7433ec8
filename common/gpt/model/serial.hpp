// The serial training step: the oracle that every parallel run is compared with, and the only place where it is
// written.
#pragma once

#include <span>

#include "common/gpt/model/gpt.hpp"
#include "common/gpt/model/optimizer.hpp"

namespace lockstep {

/// Gradients and loss of the microbatches in the order given, added up: gradients (+=), and loss[0] += factor · Σ over
/// tokens. With factor = 1 / (tokens of the global batch), microbatches of unequal size weigh as they should. `ready`
/// is called during the last microbatch only: before it no gradient is final. `saved` fits the largest microbatch. The
/// gradients, not the loss, are multiplied by `gradient_scale` (one f32, or empty); see cross_entropy.
void accumulate_gradients(Rank me, const Gpt& gpt, std::span<const Batch> microbatches, Activations& saved, Slice loss,
                          float factor, const GradientReady& ready = {}, Slice gradient_scale = {});

/// What a training step needs besides the model; made once.
struct StepScalars {
  Slice loss;     // one f32, of the last step
  Slice squares;  // one f32: the squared gradient norm of the last step
  Slice factor;   // one f32: what clipping multiplied it by
};
StepScalars allocate_step_scalars(Rank me);

struct StepOptions {
  float learning_rate = 1e-3f;
  float max_norm = 1;  // gradients are clipped to this norm; 0: not
};

/// After the gradients are complete (and, in parallel runs, reduced): clip, update, and zero them for the next step.
void finish_step(Rank me, Gpt& gpt, Optimizer& optimizer, StepScalars& scalars, StepOptions options);

/// One step on `microbatches`, whose tokens make the global batch. The mean loss per token is in scalars.loss.
void serial_step(Rank me, Gpt& gpt, Optimizer& optimizer, std::span<const Batch> microbatches, Activations& saved,
                 StepScalars& scalars, StepOptions options);

/// loss[0] += factor · Σ over tokens, with no gradients: validation.
void add_validation_loss(Rank me, const Gpt& gpt, const Batch& batch, Activations& saved, Slice loss, float factor);

}  // namespace lockstep
