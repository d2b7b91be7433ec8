// Exercise 25.7: a budget. Read labs/week25_3d/budget.hpp first.
#include "labs/week25_3d/budget.hpp"

#include <limits>

#include "common/error.hpp"
#include "labs/week21_data_parallel/scaling_laws.hpp"

namespace lockstep::week25 {

double training_flop(const Training& training) {
  todo("25.7a", "the FLOP of all parameters on all tokens, forward and backward");
}

Training training_for(double flop, double tokens_per_parameter) {
  todo("25.7a", "two equations, flop = 6 N D and D = tokens_per_parameter · N, solved for N");
}

double effective_tokens(double tokens, double unique) {
  todo("25.7a", "how often are the tokens repeated after the first time, and what is that worth?");
}

double tokens_for_loss(double parameters, double loss) {
  todo("25.7b", "what of the loss is left for B/D^β, beside the other two terms? Is anything left?");
}

double pays_off_after(const Training& small, const Training& large) {
  todo("25.7b", "what the small model costs more to train, over what it saves with each token that it serves");
}

Bill bill(double flop, const Rental& rental, int gpus) {
  todo("25.7c", "how many FLOP/s do all GPUs reach together, and how long does that take? A day has 86,400 s");
}

GpuCounts choose_gpus(double flop, const Rental& rental, double days, double money) {
  todo("25.7c", "from one node to all of them, which are fast enough and cheap enough?");
}

}  // namespace lockstep::week25
