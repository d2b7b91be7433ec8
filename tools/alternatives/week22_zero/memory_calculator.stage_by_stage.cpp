// 22.1 by recursion: a stage is the one before it, and one kind more that is divided. What is given is the reference's.
#define model_state reference_model_state
#define bytes_sent reference_bytes_sent
#define activation_bytes_per_layer reference_activation_bytes_per_layer
#include "solutions/week22_zero/memory_calculator.cpp"
#undef model_state
#undef bytes_sent
#undef activation_bytes_per_layer

namespace lockstep::week22 {

ModelState model_state(double parameters, int stage, int ranks, Recipe recipe) {
  check(parameters, stage, ranks);
  if (stage == 0) return {recipe.parameter * parameters, recipe.gradient * parameters, recipe.optimizer() * parameters};
  ModelState state = model_state(parameters, stage - 1, ranks, recipe);
  double& shared = stage == 1 ? state.optimizer_bytes : stage == 2 ? state.gradient_bytes : state.parameter_bytes;
  shared /= ranks;
  return state;
}

double bytes_sent(double parameters, int stage, int ranks, int microbatches, Recipe recipe) {
  check(parameters, stage, ranks);
  if (microbatches < 1) usage_error("there is at least 1 microbatch, not " + std::to_string(microbatches));
  double reduce_scatters = 0, all_gathers = 0;  // bytes a parameter
  for (int i = 0; i < microbatches; ++i) {
    if (stage >= 2 || i == 0) reduce_scatters += recipe.gradient;
    if (stage == 3) all_gathers += recipe.parameter + recipe.parameter;
  }
  if (stage == 0) all_gathers = recipe.gradient;
  if (stage == 1 || stage == 2) all_gathers = recipe.parameter;
  return (reduce_scatters + all_gathers) * parameters * (1 - 1.0 / ranks);
}

double activation_bytes_per_layer(LayerShape shape) {
  const double sbh = shape.positions * shape.sequences * shape.channels;
  const double ratio = shape.heads * shape.positions / shape.channels;  // as/h
  if (shape.flash) return sbh * ((shape.dropout ? 34 : 32) + 4 * shape.heads / shape.channels);
  return shape.dropout ? sbh * (34 + 5 * ratio) : sbh * (32 + 2 * ratio);
}

}  // namespace lockstep::week22
