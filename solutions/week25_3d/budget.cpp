// Exercise 25.7: a budget. Read labs/week25_3d/budget.hpp first.
#include "labs/week25_3d/budget.hpp"

#include <limits>

#include "common/error.hpp"
#include "labs/week21_data_parallel/scaling_laws.hpp"

namespace lockstep::week25 {

double training_flop(const Training& training) {
  // lab 25.7a begin: the FLOP of all parameters on all tokens, forward and backward
  return 6 * training.parameters * training.tokens;
  // lab end
}

Training training_for(double flop, double tokens_per_parameter) {
  // lab 25.7a begin: two equations, flop = 6 N D and D = tokens_per_parameter · N, solved for N
  const double parameters = std::sqrt(flop / (6 * tokens_per_parameter));
  return {parameters, tokens_per_parameter * parameters};
  // lab end
}

double effective_tokens(double tokens, double unique) {
  // lab 25.7a begin: how often are the tokens repeated after the first time, and what is that worth?
  if (tokens <= unique) return tokens;
  const double repetitions = tokens / unique - 1;
  return unique + unique * kRepetitions * (1 - std::exp(-repetitions / kRepetitions));
  // lab end
}

double tokens_for_loss(double parameters, double loss) {
  // lab 25.7b begin: what of the loss is left for B/D^β, beside the other two terms? Is anything left?
  const double rest = loss - kLossLaw.e - kLossLaw.a / std::pow(parameters, kLossLaw.alpha);
  if (rest <= 0) return std::numeric_limits<double>::infinity();
  return std::pow(kLossLaw.b / rest, 1 / kLossLaw.beta);
  // lab end
}

double pays_off_after(const Training& small, const Training& large) {
  // lab 25.7b begin: what the small model costs more to train, over what it saves with each token that it serves
  const double more = training_flop(small) - training_flop(large);
  const double saved = 2 * (large.parameters - small.parameters);
  return more > 0 ? more / saved : 0;
  // lab end
}

Bill bill(double flop, const Rental& rental, int gpus) {
  // lab 25.7c begin: how many FLOP/s do all GPUs reach together, and how long does that take? A day has 86,400 s
  const double rate = rental.peak * rental.mfu * week21::amdahl_speedup(rental.serial_fraction, gpus);
  const double hours = flop / rate / 3600;
  return {.days = hours / 24, .gpu_hours = gpus * hours, .cost = gpus * hours * rental.price};
  // lab end
}

GpuCounts choose_gpus(double flop, const Rental& rental, double days, double money) {
  // lab 25.7c begin: from one node to all of them, which are fast enough and cheap enough?
  GpuCounts counts;
  for (int nodes = 1; nodes <= rental.nodes; ++nodes) {
    const int gpus = nodes * rental.per_node;
    const Bill each = bill(flop, rental, gpus);
    if (each.days > days || each.cost > money) continue;
    if (counts.fewest == 0) counts.fewest = gpus;
    counts.most = gpus;
  }
  return counts;
  // lab end
}

}  // namespace lockstep::week25
