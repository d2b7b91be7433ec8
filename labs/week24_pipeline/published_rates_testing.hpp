// Bubble rates that were published, for what tests and ./lab bench pipeline compare with them.
//
// Qi et al. (arXiv 2401.10241), tables 5 and 6: times of F, B, W and of a hop on A100 GPUs, and the idle share of the
// longest stage's own span (bubble_of_span) that follows for each schedule.
#pragma once

#include <array>

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep::week24 {

struct PublishedRates {
  int stages, microbatches;
  double forward_ms, input_ms, weight_ms, transfer_ms;
  double one_f_one_b;
  double interleaved;
  int chunks;  ///< of interleaved
  double zb_h1, zb_h2;

  StepTimes times() const { return {forward_ms / 1e3, input_ms / 1e3, weight_ms / 1e3, transfer_ms / 1e3}; }
};

inline constexpr std::array<PublishedRates, 6> kPublishedRates = {
    {{8, 24, 18.522, 18.086, 9.337, 0.601, .2431, .1055, 3, .1585, .1083},
     {8, 64, 18.546, 18.097, 9.321, 0.762, .1240, .0443, 3, .0674, .0444},
     {8, 32, 29.802, 29.428, 19.530, 0.577, .1898, .0628, 4, .1045, .0559},
     {16, 48, 11.347, 11.248, 8.132, 0.377, .2552, .1104, 3, .1397, .0672},
     {32, 96, 10.419, 10.207, 7.715, 0.408, .2646, .1493, 2, .1421, .0641},
     {32, 256, 10.402, 10.248, 7.698, 0.460, .1352, .0624, 2, .0594, .0257}}};

}  // namespace lockstep::week24
