// 22.1 from a table: how many ranks share each kind of state at a stage. What is given is the reference's.
#define model_state reference_model_state
#define bytes_sent reference_bytes_sent
#define activation_bytes_per_layer reference_activation_bytes_per_layer
#include "solutions/week22_zero/memory_calculator.cpp"
#undef model_state
#undef bytes_sent
#undef activation_bytes_per_layer

namespace lockstep::week22 {
namespace {

constexpr int kParameters = 3, kGradients = 2, kOptimizer = 1;  // the stage from which on each is sharded

double held(double bytes, int sharded_from, int stage, int ranks) {
  return stage < sharded_from ? bytes : bytes / static_cast<double>(ranks);
}

}  // namespace

ModelState model_state(double parameters, int stage, int ranks, Recipe recipe) {
  check(parameters, stage, ranks);
  return {.parameter_bytes = held(parameters * recipe.parameter, kParameters, stage, ranks),
          .gradient_bytes = held(parameters * recipe.gradient, kGradients, stage, ranks),
          .optimizer_bytes = held(parameters * (recipe.master + recipe.moments), kOptimizer, stage, ranks)};
}

double bytes_sent(double parameters, int stage, int ranks, int microbatches, Recipe recipe) {
  check(parameters, stage, ranks);
  if (microbatches < 1) usage_error("there is at least 1 microbatch, not " + std::to_string(microbatches));
  const int reductions = stage >= 2 ? microbatches : 1;
  double each = reductions * recipe.gradient;
  switch (stage) {
    case 0: each += recipe.gradient; break;  // an all-reduce gathers the gradients it has reduced
    case 3: each += 2.0 * microbatches * recipe.parameter; break;
    default: each += recipe.parameter;
  }
  return each * (parameters - parameters / ranks);
}

double activation_bytes_per_layer(LayerShape shape) {
  const double rows = shape.positions * shape.sequences;
  double bytes = rows * shape.channels * 32;
  if (shape.dropout) bytes += 2 * rows * shape.channels;
  if (shape.flash) return bytes + rows * shape.heads * 4;
  const double scores = rows * shape.heads * shape.positions;
  return bytes + scores + scores + (shape.dropout ? 3 * scores : 0);
}

}  // namespace lockstep::week22
