// Go further than exercise 21.2: the ring in short segments. While a rank adds one segment, the next is on its way, and
// what was received and added is sent on while a core's cache still holds it. Written with the same eight verbs.
//
// What it gains depends on how messages travel. Between two processes of one host, where MPI copies each of them in and
// out of shared memory, it takes as long as MPI's own all-reduce up to 1 MiB, and is 1.05 times as fast at 2 MiB, 1.1
// at 4, 1.2 at 8. Where the receiver reads the sender's memory (CMA), there is less to keep in a cache and each batch
// is a rendezvous: beyond 1 MiB it is up to a quarter slower than the clear ring, which is as fast as MPI's own.
#pragma once

#include "common/rank.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"

namespace lockstep::bench {

/// Bytes that a segment has at least. Where processes share memory, each segment costs a handshake of MPI's, 2 to 5 µs,
/// and a core's cache holds several of this size: the best of 64 KiB to 1 MiB between two processes.
inline constexpr std::size_t kSegmentBytes = 256 * 1024;

/// Fewer blocks than this are not worth the handshakes: while the first is received and the last is added nothing
/// overlaps, and so small an array stays in the caches anyway. It goes round in one block, as in the ring.
inline constexpr int kFewestBlocks = 3;

/// Sums `data` over the group, in place. Each rank sends 2(p − 1)/p of the bytes, as in a ring; scratch is 2(p − 1)
/// segments, or one where there is one block.
void pipelined_all_reduce(Rank me, Slice data, std::size_t segment_bytes = kSegmentBytes);

/// Its seconds on p ranks where additions run beside messages: batch after batch, whichever of the two takes longer.
/// Exact where p × segment divides the bytes and additions do not slow messages down.
double pipelined_all_reduce_seconds(week21::CostModel cost, int ranks, double bytes,
                                    std::size_t segment_bytes = kSegmentBytes);

}  // namespace lockstep::bench
