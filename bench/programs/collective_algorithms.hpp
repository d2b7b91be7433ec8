// Broadcast and all-to-all algorithms made of point-to-point messages. Reduce-scatter and all-gather are those of
// exercise 21.2, the star is the broadcast of 21.0.
//
// Binomial tree and pairwise exchange as in Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005); the chain in segments is
// van de Geijn's pipeline.
#pragma once

#include "common/rank.hpp"

namespace lockstep::bench {

/// Broadcasts from rank 0 in ⌈lg p⌉ rounds: in the round with distance d (the largest first) each rank that has the
/// array and is a multiple of 2d sends it to the rank d further.
void tree_broadcast(Rank me, Slice data);

/// Broadcasts from rank 0 in segments: every rank passes one on while it receives the next, p + segments − 2 steps.
void chain_broadcast(Rank me, Slice data, int segments);

/// Sends chunk c of `from` to rank c, which stores it as chunk `rank`: all messages at once, to the next rank first.
void direct_all_to_all(Rank me, Slice to, Slice from);

/// The same in p − 1 steps: in step i each rank sends to the rank i further and receives from the rank i before.
void pairwise_all_to_all(Rank me, Slice to, Slice from);

}  // namespace lockstep::bench
