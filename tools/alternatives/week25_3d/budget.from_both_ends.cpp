// 25.7 in seconds, with what each GPU loses, and with the numbers of GPUs looked for from both ends.
#include "labs/week25_3d/budget.hpp"

#include <cmath>
#include <limits>

#include "labs/week21_data_parallel/scaling_laws.hpp"

namespace lockstep::week25 {
namespace {

bool will_do(const Bill& each, double days, double money) { return each.days <= days && each.cost <= money; }

}  // namespace

double training_flop(const Training& training) { return 2 * training.parameters * 3 * training.tokens; }

Training training_for(double flop, double tokens_per_parameter) {
  Training found{.parameters = std::pow(flop / 6 / tokens_per_parameter, 0.5)};
  found.tokens = flop / 6 / found.parameters;
  return found;
}

double effective_tokens(double tokens, double unique) {
  const double epochs = tokens / unique;
  if (epochs < 1) return tokens;
  return unique * (1 + kRepetitions - kRepetitions * std::exp((1 - epochs) / kRepetitions));
}

double tokens_for_loss(double parameters, double loss) {
  // With endless tokens, the loss is the lowest that this size has.
  const double lowest = kLossLaw.loss({parameters, std::numeric_limits<double>::infinity()});
  if (loss <= lowest) return std::numeric_limits<double>::infinity();
  return std::pow((loss - lowest) / kLossLaw.b, -1 / kLossLaw.beta);
}

double pays_off_after(const Training& small, const Training& large) {
  const double at_first = training_flop(small) - training_flop(large);
  if (at_first <= 0) return 0;
  return at_first / 2 / (large.parameters - small.parameters);
}

Bill bill(double flop, const Rental& rental, int gpus) {
  const double efficiency = week21::amdahl_speedup(rental.serial_fraction, gpus) / gpus;
  const double seconds = flop / (gpus * rental.peak * rental.mfu * efficiency);
  Bill found{.days = seconds / 86400, .gpu_hours = seconds * gpus / 3600};
  found.cost = found.gpu_hours * rental.price;
  return found;
}

GpuCounts choose_gpus(double flop, const Rental& rental, double days, double money) {
  const auto of = [&](int nodes) { return bill(flop, rental, nodes * rental.per_node); };
  int first = 1, last = rental.nodes;
  while (first <= last && !will_do(of(first), days, money)) ++first;
  while (first <= last && !will_do(of(last), days, money)) --last;
  if (first > last) return {};
  return {.fewest = first * rental.per_node, .most = last * rental.per_node};
}

}  // namespace lockstep::week25
