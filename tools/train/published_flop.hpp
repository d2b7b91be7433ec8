// FLOP of a training step, as publications count them.
#pragma once

#include "labs/trainer/options_3d.hpp"

namespace lockstep::train {

/// FLOP of one step of the model, forward and backward. Counts attention without the causal mask, like published
/// figures (Narayanan et al., arXiv 2104.04473, section 3 and appendix).
inline double published_flop(const week25::Options3d& o) {
  const auto batch = static_cast<double>(o.batch), layers = static_cast<double>(o.model.layers),
             s = static_cast<double>(o.sequence), h = static_cast<double>(o.model.d_model),
             vocabulary = static_cast<double>(o.model.vocabulary);
  const double squares = static_cast<double>(o.model.block_matrices()) / (h * h);  // 12
  return 6 * squares * batch * layers * s * h * h * (1 + 2 * s / (squares * h) + vocabulary / (squares * h * layers));
}

}  // namespace lockstep::train
