// 25.7 with logarithms, and with both conditions solved for the number of GPUs instead of tried.
#include "labs/week25_3d/budget.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep::week25 {

double training_flop(const Training& training) {
  const double forward = 2 * training.parameters * training.tokens;
  return forward + 2 * forward;
}

Training training_for(double flop, double tokens_per_parameter) {
  const double tokens = std::sqrt(flop * tokens_per_parameter / 6);
  return {.parameters = flop / (6 * tokens), .tokens = tokens};
}

double effective_tokens(double tokens, double unique) {
  const double again = std::max(0.0, tokens - unique);
  return std::min(tokens, unique) - kRepetitions * unique * std::expm1(-again / (kRepetitions * unique));
}

double tokens_for_loss(double parameters, double loss) {
  const double rest = (loss - kLossLaw.e) - kLossLaw.a * std::exp(-kLossLaw.alpha * std::log(parameters));
  if (!(rest > 0)) return HUGE_VAL;
  return std::exp((std::log(kLossLaw.b) - std::log(rest)) / kLossLaw.beta);
}

double pays_off_after(const Training& small, const Training& large) {
  const double products = small.parameters * small.tokens - large.parameters * large.tokens;
  return std::max(0.0, 3 * products / (large.parameters - small.parameters));
}

Bill bill(double flop, const Rental& rental, int gpus) {
  const double of_one = flop / (rental.peak * rental.mfu) / 3600;
  const double gpu_hours = of_one * (1 + rental.serial_fraction * (gpus - 1));
  return {gpu_hours / gpus / 24, gpu_hours, gpu_hours * rental.price};
}

GpuCounts choose_gpus(double flop, const Rental& rental, double days, double money) {
  const double one = bill(flop, rental, 1).days, s = rental.serial_fraction, node = rental.per_node;
  if (days <= one * s) return {};
  // one·(s + (1 − s)/G) ≤ days, and 24·one·price·(1 + s·(G − 1)) ≤ money.
  const double in_time = one * (1 - s) / (days - one * s);
  const double paid = money / (24 * one * rental.price);
  const double payable = s > 0 ? 1 + (paid - 1) / s : paid >= 1 ? HUGE_VAL : 0;
  const double fewest = std::max(1.0, std::ceil(in_time / node)),
               most = std::min(std::floor(payable / node), 1.0 * rental.nodes);
  if (fewest > most) return {};
  return {static_cast<int>(fewest) * rental.per_node, static_cast<int>(most) * rental.per_node};
}

}  // namespace lockstep::week25
