// Exercise 21.2: the ring all-reduce, from point-to-point messages only. No rank carries more than any other, and none
// sends more than twice the array, however many ranks there are.
//
// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009: their ring is
// exactly these two parts, and no algorithm sends less.
#pragma once

#include "common/chunk.hpp"
#include "common/rank.hpp"

namespace lockstep::week21 {

/// Part a. Afterwards chunk(data, r, p) of rank r is the element-wise sum of that chunk over all ranks; the other
/// chunks of `data` hold partial sums that are not needed. Same size and dtype on every rank; any size, also less than
/// p (some chunks are then empty; they are sent anyway, as messages of no bytes); any p, also 1.
///
/// p − 1 steps, each one exchange: a send to the next rank, (r + 1) mod p, and a receive from the previous one, (r − 1)
/// mod p; with no other rank. (Or the other way round on all ranks: it costs the same.) Sent per rank: every chunk
/// but its own, (p − 1)/p·n bytes. Memory: one scratch as long as the longest chunk.
///
/// What later exercises rely on: that chunk r ends on rank r (22.2 keeps the optimizer of that chunk there), and that
/// only neighbours talk, so that of each node one rank sends to another node (21.4).
void ring_reduce_scatter(Rank me, Slice data);

/// Part b. Before, chunk(data, r, p) of rank r is what all ranks must get; afterwards `data` is the same on every rank.
/// p − 1 steps as in part a, to the next rank and from the previous one (or the other way round). Sent per rank: every
/// chunk but that of the rank it sends to, (p − 1)/p·n bytes; no memory beyond `data`.
void ring_all_gather(Rank me, Slice data);

/// Given: both parts. Sums `data` element by element over all ranks. 2(p − 1) steps, 2(p − 1)/p·n bytes sent per rank.
void ring_all_reduce(Rank me, Slice data);

}  // namespace lockstep::week21
