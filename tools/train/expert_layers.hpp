// A model whose blocks have a mixture of experts in place of the MLP, shared by the replicas: exercises 23.7 and 23.10
// in a training step. Only this program links it, so the trainer knows it through week25::MixtureCode.
#pragma once

#include "labs/trainer/options_3d.hpp"

namespace lockstep::train {

/// The model "tiny-moe": tiny, with 4 experts of which a token meets 2.
GptConfig tiny_mixture();

/// Options of 23.10.
struct ExpertLimits {
  double capacity_factor = 0;  // 0: no slot is dropped
  float balance = 0;           // what a token's balance loss is multiplied by; 0: there is none
};
week25::MixtureCode mixture_code(ExpertLimits limits = {});
/// For a dry run, which has no values to route by: all experts get equally many rows.
week25::MixtureCode even_mixture_code();

/// A region around each block's backward pass, whose bytes are the rows that leave their rank, one way. They travel
/// four times: there and back, forward and backward.
inline constexpr const char* kMixtureBackward = "mixture backward";
/// In it, around the experts' backward, whose bytes are the rows that this rank's experts computed.
inline constexpr const char* kExpertsBackward = "experts backward";

}  // namespace lockstep::train
