// Exercise 22.1: the memory calculator. Read labs/week22_zero/memory_calculator.hpp first.
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
  const double p = ranks;
  ModelState state;
  todo("22.1a", "each of the three kinds: bytes per parameter times parameters, divided by p from its stage on");
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
  const double once = parameters * (ranks - 1) / ranks, m = microbatches;  // elements of one all-gather
  todo("22.1a", "count reduce-scatters of gradients and all-gathers of parameters");
}

double activation_bytes_per_layer(LayerShape shape) {
  const double s = shape.positions, b = shape.sequences, h = shape.channels, a = shape.heads;
  todo("22.1b",
       "s·b·h times 34, or 32 without the masks of two dropouts; and attention's scores: a·b·s² times 2 for the "
       "softmax, and with dropout 3 more for its mask and output; or, with flash attention, one fp32 number per row");
}

}  // namespace lockstep::week22
