// Performance of the vendor's libraries on a machine, taken from published measurements: long-running products, kernels
// that only move memory, attention in one kernel, NCCL's all-reduce. A machine file may contain it
// (docs/use/machines.md, `library`). Predictions of published training runs use it; labs and simulator use α, β, γ and
// the efficiency curve.
//
// Nothing here is fitted to a training run. Measured all-reduces include their additions, so γ is not added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/runtime/machine/operation.hpp"

namespace lockstep {

struct Machine;

/// Attention as training software computes it: one kernel that stores no scores (FlashAttention) or, as before it,
/// matrix products with a masked softmax and dropout between them, which write the scores to memory and read them each
/// time. `materialised_again`: the backward recomputes them (selective recomputation, arXiv 2205.05198).
enum class AttentionKernel : std::uint8_t { flash, materialised, materialised_again };

/// The host of software that issues operations one by one ("eager"). It is not counted; or it works ahead, so that an
/// operation takes as long as the slower of host and GPU; or it waits for each (CUDA_LAUNCH_BLOCKING=1), and both add
/// up.
enum class HostMode : std::uint8_t { ignored, ahead, waits };

struct AttentionPoint {
  double positions = 0;
  double forward = 0, backward = 0;  ///< FLOP per second, counting only the half that a causal mask leaves
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
  double matmul_flop_per_second = 0;  ///< of 16-bit products under sustained load, without the next two
  double fp8_flop_per_second = 0;     ///< likewise, of 8-bit operands; 0: the GPU has none, or it is unknown
  double matmul_seconds = 0;          ///< lost by each product while the chip fills and drains
  double write_bytes_per_second = 0;  ///< at which a product's result leaves; 0: the memory's
  double memory_bytes_per_second = 0;
  double host_seconds = 0;                  ///< that eager software needs to issue an operation
  std::vector<FlashKernel> flash;           ///< the first is the default
  int all_reduce_ranks = 0;                 ///< number of ranks in the curve's measurement
  std::vector<CollectivePoint> all_reduce;  ///< seconds for whole arrays, on so many ranks of the innermost level
  double tree_bytes_per_second = 0;         ///< that NCCL reckons a tree over two nodes moves at most, twice; 0: any
  int multiprocessors = 0;                  ///< per GPU; 0: unknown
  int collective_blocks = 0;                ///< multiprocessors that a collective's kernel occupies within a node
  int collective_blocks_across_nodes = 0;   ///< and across nodes
  AttentionKernel kernel = AttentionKernel::flash;
  HostMode host = HostMode::ignored;
  std::size_t which = 0;  ///< index into `flash`
  bool fp8 = false;       ///< products take operands of 8 bits, and write 16
};

/// Seconds of an operation. A product takes FLOP / rate, then writes its result, so a small inner dimension is slow.
/// The cache may take the result faster than memory does, but the memory must still move all operands in that time.
/// Attention follows its own curve, or costs the sum of its parts; all other operations take the time to read and write
/// their operands. Each includes the launch; `host` may make it longer.
double library_seconds(const LibraryPrices& prices, const Machine& machine, const Operation& operation);

/// Seconds of a library all-reduce of `bytes` (the whole array) among `ranks` that are `apart` ranks from each other.
/// Within one node, the measured curve, interpolated linearly in the logarithms, or a ring if there is no curve. Across
/// nodes, the faster of a ring and a tree, striped over the ports of all ranks in the group. On two nodes a tree sends
/// half as much as a ring, but is never faster than an all-reduce within a node.
double library_all_reduce_seconds(const Machine& machine, int ranks, double bytes, int apart = 1);
/// Bandwidth per rank of these rings: what its links carry, or its part of the node's ports if that is less. The busbw
/// of a ring approaches it for large arrays.
double library_ring_bytes_per_second(const Machine& machine, int ranks, int apart = 1);
/// Seconds of an all-gather or a reduce-scatter of `bytes` (the whole array): half of an all-reduce, but never faster
/// than the links. A sum inside the switch (NVLS) relieves the links in an all-reduce, but not here.
double library_gather_seconds(const Machine& machine, int ranks, double bytes, int apart = 1);
/// Seconds of a collective of `bytes` (the whole array) in which each rank sends `sent`: an all-reduce if that is more
/// than once round the ring, otherwise a gather or a scatter. Nothing sent: 0.
double library_collective_seconds(const Machine& machine, int ranks, double bytes, double sent, int apart = 1);
/// Fraction of a GPU's multiprocessors that a collective's kernel occupies while it runs, waiting or not, among ranks
/// whose outermost common level is `level`; concurrent arithmetic uses the rest. 0 if the machine file does not say, or
/// if the library's times are not used.
double library_share(const Machine& machine, int level);

}  // namespace lockstep
