// Overlap inside tensor parallelism (23.9) for ./lab bench tp --overlapped-linear: the two layers of an MLP whose rows
// are gathered or scattered, in 23.5's order and along a ring. Reports virtual time and 23.9's formulas.
#pragma once

#include "bench/support/bench.hpp"

namespace lockstep::bench {

struct OverlappedLinearOptions {
  std::vector<int> rows;  ///< per rank, of each measurement
  std::size_t d_model = 0;
};

/// Reports a row for each number of rows, layer and order on `options`, the simulator's with at least two ranks.
void report_overlapped_linear(Bench& bench, RunOptions options, const OverlappedLinearOptions& o);

}  // namespace lockstep::bench
