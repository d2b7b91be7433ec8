// What the vendor's libraries reach on a machine, as others measured it: products that run for long, kernels that only
// move memory, attention in one kernel, NCCL's all-reduce. A machine file may have them (docs/machines.md, `library`);
// published training runs are predicted with them, while labs and simulator price with α, β, γ and the efficiency
// curve.
//
// Nothing here is fitted to a training run. Every all-reduce was timed with its additions in it: γ is not paid again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/runtime/machine/operation.hpp"

namespace lockstep {

struct Machine;

/// Attention as training software does it: one kernel that keeps no scores (FlashAttention); or, as before it, products
/// of matrices with a masked softmax and dropout between them, whose scores cross the memory each time. `again`: the
/// backward computes them once more (selective recomputation, arXiv 2205.05198).
enum class AttentionKernel : std::uint8_t { flash, materialised, materialised_again };

struct AttentionPoint {
  double positions = 0;
  double forward = 0, backward = 0;  ///< FLOP per second, of which a causal mask leaves half
};
struct FlashKernel {
  std::string name;
  std::vector<AttentionPoint> points;
};

struct CollectivePoint {
  double bytes = 0;
  double seconds = 0;
};

struct LibraryPrices {
  double matmul_flop_per_second = 0;  ///< of large products in 16 bits, at the clock that a long load leaves
  double matmul_seconds = 0;          ///< that each product loses while the chip fills and empties
  double memory_bytes_per_second = 0;
  std::vector<FlashKernel> flash;           ///< the first is what is meant where none is named
  int all_reduce_ranks = 0;                 ///< of the curve
  std::vector<CollectivePoint> all_reduce;  ///< seconds of the whole array on so many ranks of the innermost level
  int multiprocessors = 0;                  ///< of a GPU; 0: unknown
  int collective_blocks = 0;               ///< multiprocessors that a collective's kernel holds: among ranks of a node,
  int collective_blocks_across_nodes = 0;  ///< and of several
  AttentionKernel kernel = AttentionKernel::flash;
  std::size_t which = 0;  ///< of `flash`
};

/// A product takes FLOP / rate, and then what it writes crosses the memory: a small inner dimension costs. Attention
/// takes its own curve's time, or that of its parts; all else what it reads and writes. Each: and the launch.
double library_seconds(const LibraryPrices& prices, const Machine& machine, const Operation& operation);

/// An all-reduce by the library among `ranks` that are `apart` ranks from each other, `bytes` the whole array. In one
/// node by the curve, between its points a line through the logarithms, and without a curve a ring; across nodes a ring
/// or a tree, whichever is faster, striped over the ports of all of the group's ranks.
double library_all_reduce_seconds(const Machine& machine, int ranks, double bytes, int apart = 1);
/// An all-gather or a reduce-scatter of `bytes`, the whole array: half of that, but never faster than the links, which
/// a sum inside the switch (NVLS) relieves and they do not.
double library_gather_seconds(const Machine& machine, int ranks, double bytes, int apart = 1);
/// Of a GPU, what a collective's kernel holds from its beginning to its end, waiting or not, among ranks whose
/// outermost common level is `level`: arithmetic beside it goes on with the rest. 0 where the file does not say, or
/// nothing is priced by the library.
double library_share(const Machine& machine, int level);

}  // namespace lockstep
