// Go further than exercise 21.2: the ring in short segments. While a rank adds one segment, the next is on its way, and
// what was received and added is sent on while a core's cache still holds it. Written with the same eight verbs.
#pragma once

#include "common/rank.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"

namespace lockstep::bench {

/// Bytes that a segment has at least: few enough that a core's cache holds several, so many that starting a message
/// costs little beside moving it. The best of 32 KiB to 512 KiB between two processes that share memory.
inline constexpr std::size_t kSegmentBytes = 96 * 1024;

/// Sums `data` over the group, in place. Each rank sends 2(p − 1)/p of the bytes, as in a ring; scratch is 2(p − 1)
/// segments.
void pipelined_all_reduce(Rank me, Slice data, std::size_t segment_bytes = kSegmentBytes);

/// Its seconds on p ranks where additions run beside messages: batch after batch, whichever of the two takes longer.
/// Exact where p × segment divides the bytes and additions do not slow messages down.
double pipelined_all_reduce_seconds(week21::CostModel cost, int ranks, double bytes,
                                    std::size_t segment_bytes = kSegmentBytes);

}  // namespace lockstep::bench
