// A model whose blocks have a mixture of experts in place of the MLP, shared by the replicas: exercise 23.7 in a
// training step. Only this program links it, so the trainer knows it through week25::MixtureCode.
#pragma once

#include "labs/trainer/options_3d.hpp"

namespace lockstep::train {

/// The model "tiny-moe": tiny, with 4 experts of which a token meets 2.
GptConfig tiny_mixture();

week25::MixtureCode mixture_code();
/// Of a dry run, which has no values to route by: all experts get equally many rows.
week25::MixtureCode even_mixture_code();

/// A region around each block's backward pass, whose bytes are the rows that leave their rank, one way. They travel
/// four times: there and back, forward and backward.
inline constexpr const char* kMixtureBackward = "mixture backward";

}  // namespace lockstep::train
