// Ways to broadcast and to exchange everything with everybody, from point-to-point messages. Reduce-scatter and
// all-gather are exercise 21.2's, the star is 21.0's broadcast.
//
// Binomial tree and pairwise exchange as in Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005); the chain in segments is
// van de Geijn's pipeline.
#pragma once

#include "common/rank.hpp"

namespace lockstep::bench {

/// From rank 0, ⌈lg p⌉ rounds: in the round of distance d (the largest first) each rank that has the array and is a
/// multiple of 2d sends it d ranks further.
void tree_broadcast(Rank me, Slice data);

/// From rank 0, in segments: every rank passes one on while it receives the next, p + segments − 2 steps.
void chain_broadcast(Rank me, Slice data, int segments);

/// Chunk c of `from` to rank c, into its chunk of my number: all messages at once, to the next rank first.
void direct_all_to_all(Rank me, Slice to, Slice from);

/// The same in p − 1 steps: in step i to the rank i further on, from the one i before.
void pairwise_all_to_all(Rank me, Slice to, Slice from);

}  // namespace lockstep::bench
