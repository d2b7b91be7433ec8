// Exercise 25.7: a budget. From floating-point operations (FLOP) to the model and the tokens to spend them on, from a
// loss to the tokens that a smaller model needs for it, and from a training to GPUs, days and money.
//
// Hoffmann et al., Training Compute-Optimal Large Language Models (arXiv 2203.15556; its model is Chinchilla), and
// Muennighoff et al., Scaling Data-Constrained Language Models (arXiv 2305.16264). All arguments are above 0, except
// where 0 is allowed below. Counts of FLOP and tokens are doubles: 1e24 is more than an integer of 64 bits holds.
#pragma once

#include <cmath>

namespace lockstep::week25 {

// Part a: from FLOP to a model ----------------------------------------------------------------------------------------

struct Training {
  double parameters = 0;  ///< N
  double tokens = 0;      ///< D, each as often as it is seen
};

/// 6 N D: per parameter and token two FLOP forward and four backward (Kaplan et al., arXiv 2001.08361, section 2.1).
/// Recomputed activations are not counted again, as in MFU.
double training_flop(const Training& training);

/// Tokens per parameter that spend a budget best (Hoffmann et al., Table 3, whose rows have 20 to 22).
inline constexpr double kTokensPerParameter = 20;

/// The training of `flop` that has this many tokens per parameter. More than 20 is a smaller model than the best one,
/// trained for longer.
Training training_for(double flop, double tokens_per_parameter);

/// Returns how many new tokens are worth as much as `tokens`, of which only `unique` differ (Muennighoff et al.,
/// section 3.1): unique + unique·R*·(1 − e^(−R/R*)), where R = tokens/unique − 1 is how often they are repeated after
/// the first time. `tokens`, where none is seen twice.
double effective_tokens(double tokens, double unique);
inline constexpr double kRepetitions = 15.387756;  ///< R*, as they fitted it (appendix A)

// Part b: a smaller model on purpose ----------------------------------------------------------------------------------

/// Given: the loss of a training in nats per token, E + A/N^α + B/D^β. Hoffmann et al.'s approach 3 with the constants
/// of Besiroglu et al. (arXiv 2404.10102), who fitted it again, since the published ones do not fit.
struct LossLaw {
  double e = 1.8172, a = 482.01, alpha = 0.3478, b = 2085.43, beta = 0.3658;
  double loss(const Training& t) const { return e + a / std::pow(t.parameters, alpha) + b / std::pow(t.tokens, beta); }
};
inline constexpr LossLaw kLossLaw;

/// The tokens after which a model of `parameters` has this loss by kLossLaw; infinity, where no number of tokens is
/// enough.
double tokens_for_loss(double parameters, double loss);

/// Returns how many tokens must be served, at 2 N FLOP each, until `small` has taken no more FLOP than `large`,
/// training and serving together; 0 where it takes no more to train. `small` has fewer parameters.
double pays_off_after(const Training& small, const Training& large);

// Part c: days and money ----------------------------------------------------------------------------------------------

/// The speed and price of GPUs. On G of them the MFU is mfu·S(G)/G, where S is Amdahl's speedup (21.10).
struct Rental {
  double peak = 0;             ///< FLOP/s of one GPU by its data sheet, dense: not the number for sparse matrices
  double mfu = 0;              ///< of one GPU: the share of its peak that the FLOP of training_flop reach
  double serial_fraction = 0;  ///< Amdahl's s ≥ 0
  double price = 0;            ///< of one GPU for an hour, ≥ 0, in any currency
  int per_node = 8;            ///< GPUs come in whole nodes
  int nodes = 1;               ///< that there are at most
};

struct Bill {
  double days = 0, gpu_hours = 0, cost = 0;
};
/// The bill of `flop` on this many GPUs, running without a break.
Bill bill(double flop, const Rental& rental, int gpus);

/// Numbers of GPUs in whole nodes; both 0 where no number of nodes will do.
struct GpuCounts {
  int fewest = 0, most = 0;
};
/// The fewest and the most GPUs with which `flop` take at most `days` and cost at most `money`.
GpuCounts choose_gpus(double flop, const Rental& rental, double days, double money);

}  // namespace lockstep::week25
