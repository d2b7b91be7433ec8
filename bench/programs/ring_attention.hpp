// Ring attention for ./lab bench tp --ring-attention: one layer's attention over a sequence that p ranks share, split
// in both ways, forward and backward. Reports virtual time and memory, and the machine file's predictions.
#pragma once

#include "bench/support/bench.hpp"

namespace lockstep::bench {

struct RingAttentionOptions {
  std::vector<int> positions;  ///< T of each measurement, multiples of 2p
  std::size_t heads = 0, head_size = 0;
  DType dtype = DType::bf16;
};

/// Reports a row for each length, split and pass on `options`, the simulator's. One sequence.
void report_ring_attention(Bench& bench, RunOptions options, const RingAttentionOptions& o);

}  // namespace lockstep::bench
