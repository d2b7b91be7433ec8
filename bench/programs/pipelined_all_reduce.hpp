// Go further than exercise 21.2: the ring with a reduce-scatter in segments. While a rank adds one segment, the next is
// in flight, and segments are added while they are in the core's cache. Written with the same eight verbs.
//
// Between two processes of one host it is as fast as MPI's own all-reduce from 256 KiB to 2 MiB, and 1.04 to 1.08 times
// as fast at 4 MiB. With an all-gather in the same pipeline it was faster still if MPI copies each message in and out
// of shared memory (1.12 at 4 MiB), but lost a fifth from 2 MiB on if the receiver reads the sender's memory (CMA).
#pragma once

#include "common/rank.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"

namespace lockstep::bench {

/// Minimum size of a segment in bytes. Between processes that share memory, each segment costs an MPI handshake, 2 to 5
/// µs, and a core's cache holds several segments of this size: the best of 64 KiB to 1 MiB between two processes.
inline constexpr std::size_t kSegmentBytes = 256 * 1024;

/// Fewer blocks are not worth the handshakes: nothing overlaps while the first is received and the last is added, and
/// an array that small stays in the caches anyway. It travels as one block, as in the ring.
inline constexpr int kFewestBlocks = 3;

/// Sums `data` over the group, in place. Each rank sends 2(p − 1)/p of the bytes, as in a ring; scratch is 2(p − 1)
/// segments, or one if there is one block.
void pipelined_all_reduce(Rank me, Slice data, std::size_t segment_bytes = kSegmentBytes);

/// Bytes of a segment; all have the same length except for rounding.
double pipelined_segment_bytes(int ranks, double bytes, std::size_t segment_bytes = kSegmentBytes);

/// Predicted seconds on p ranks if additions overlap with messages: the longer of the two for each batch. Exact if p ×
/// segment divides the bytes and additions do not slow messages down.
double pipelined_all_reduce_seconds(week21::CostModel cost, int ranks, double bytes,
                                    std::size_t segment_bytes = kSegmentBytes);

}  // namespace lockstep::bench
