// Dropout by axis (23.8) for ./lab bench tp --dropout: what two dropouts add to a checkpointed MLP block that p ranks
// share, in virtual time and by formula; and how many elements differ from one rank's, on every layout of the ranks.
#pragma once

#include "bench/support/bench.hpp"

namespace lockstep::bench {

struct AxisDropoutOptions {
  float p = 0.1f;
  std::size_t d_model = 0, sequences = 0, positions = 0;
  DType dtype = DType::bf16;
};

/// Reports a row for each pass and one for each layout on `options`, the simulator's.
void report_axis_dropout(Bench& bench, RunOptions options, const AxisDropoutOptions& o);

}  // namespace lockstep::bench
