// Dropout in a training step: exercise 23.8. Only ./lab train and scale link it, so the trainer knows it through
// week25::MakeDropout.
#pragma once

#include "labs/trainer/options_3d.hpp"

namespace lockstep::train {

/// Drops, with probability p, elements of the embedding's, each attention's and each MLP's output: the same ones on
/// every layout. Attention is fused and keeps its probabilities.
week25::MakeDropout dropout_code(double p);

}  // namespace lockstep::train
