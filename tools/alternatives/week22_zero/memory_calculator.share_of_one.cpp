// 22.1 with 1/p as a factor.
#include "labs/week22_zero/memory_calculator.hpp"

#include "common/error.hpp"

namespace lockstep::week22 {

Recipe recipe_of(DType dtype, bool master) {
  const auto bytes = static_cast<double>(bytes_of(dtype));
  return {.parameter = bytes, .gradient = bytes, .master = bytes < 4 && master ? 4.0 : 0.0, .moments = 8};
}

namespace {

void check(double parameters, int stage, int ranks) {
  if (stage < 0 || stage > 3)
    usage_error("ZeRO has stages 0 (plain data parallelism), 1, 2 and 3; there is no stage " + std::to_string(stage));
  if (ranks < 1) usage_error("there is at least 1 rank, not " + std::to_string(ranks));
  if (!(parameters > 0)) usage_error("a model has more than 0 parameters");
}

}  // namespace

ModelState model_state(double parameters, int stage, int ranks, Recipe recipe) {
  check(parameters, stage, ranks);
  const double share = 1.0 / ranks;
  ModelState state;
  state.parameter_bytes = recipe.parameter * parameters * (stage >= 3 ? share : 1);
  state.gradient_bytes = recipe.gradient * parameters * (stage >= 2 ? share : 1);
  state.optimizer_bytes = recipe.optimizer() * parameters * (stage >= 1 ? share : 1);
  return state;
}

int fewest_ranks(double parameters, int stage, Recipe recipe, double bytes, int most) {
  check(parameters, stage, most);
  for (int ranks = 1; ranks <= most; ++ranks) {
    if (model_state(parameters, stage, ranks, recipe).total_bytes() <= bytes) return ranks;
    if (stage == 0) break;  // never gets better
  }
  return 0;
}

double bytes_sent(double parameters, int stage, int ranks, int microbatches, Recipe recipe) {
  check(parameters, stage, ranks);
  if (microbatches < 1) usage_error("there is at least 1 microbatch, not " + std::to_string(microbatches));
  const double once = parameters * (1 - 1.0 / ranks), m = microbatches;  // elements of one all-gather
  if (stage == 0) return 2 * once * recipe.gradient;                     // a ring all-reduce
  if (stage == 1) return once * (recipe.gradient + recipe.parameter);
  if (stage == 2) return once * (m * recipe.gradient + recipe.parameter);
  return once * m * (recipe.gradient + 2 * recipe.parameter);
}

double activation_bytes_per_layer(LayerShape shape) {
  const double s = shape.positions, b = shape.sequences, h = shape.channels, a = shape.heads;
  const double linear = s * b * h * (shape.dropout ? 34 : 32);
  const double scores = a * b * s * s * (shape.dropout ? 5 : 2);
  return linear + (shape.flash ? 4 * a * b * s : scores);
}

}  // namespace lockstep::week22
