#include "common/gpt/model/serial.hpp"

namespace lockstep {

void accumulate_gradients(Rank me, const Gpt& gpt, std::span<const Batch> microbatches, Activations& saved, Slice loss,
                          float factor, const GradientReady& ready, Slice gradient_scale) {
  for (std::size_t i = 0; i < microbatches.size(); ++i) {
    const Batch& batch = microbatches[i];
    Activations part = gpt.first_sequences(saved, batch.sequences);
    part.microbatch = static_cast<int>(i);
    gpt.forward(me, batch, part);
    gpt.layers().loss(me, loss, part.logits, batch.targets, factor, gradient_scale);
    gpt.backward(me, batch, part, i + 1 == microbatches.size() ? ready : GradientReady{});
  }
}

StepScalars allocate_step_scalars(Rank me) {
  auto scalar = [&] { return me.allocate(1, DType::f32, Category::buffer); };
  return {scalar(), scalar(), scalar()};
}

void finish_step(Rank me, Gpt& gpt, Optimizer& optimizer, StepScalars& scalars, StepOptions options) {
  Slice factor;
  if (options.max_norm > 0) {
    clip(me, scalars.factor, scalars.squares, gpt.parameters().gradients, options.max_norm);
    factor = scalars.factor;
  }
  optimizer.step(me, options.learning_rate, factor);
  fill(me, gpt.parameters().gradients, 0);
}

void serial_step(Rank me, Gpt& gpt, Optimizer& optimizer, std::span<const Batch> microbatches, Activations& saved,
                 StepScalars& scalars, StepOptions options) {
  std::size_t tokens = 0;
  for (const Batch& batch : microbatches) tokens += batch.rows();
  fill(me, scalars.loss, 0);
  accumulate_gradients(me, gpt, microbatches, saved, scalars.loss, 1.0f / static_cast<float>(tokens));
  finish_step(me, gpt, optimizer, scalars, options);
}

void add_validation_loss(Rank me, const Gpt& gpt, const Batch& batch, Activations& saved, Slice loss, float factor) {
  Activations part = gpt.first_sequences(saved, batch.sequences);
  gpt.forward(me, batch, part);
  gpt.layers().validation_loss(me, loss, part.logits, batch.targets, factor);
}

}  // namespace lockstep
