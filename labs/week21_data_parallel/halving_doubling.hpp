// Exercise 21.3: all-reduces of few steps. Recursive doubling takes lg p of them where the ring takes 2(p − 1), but
// sends the whole array in each; Rabenseifner's algorithm takes 2 lg p and sends no more than the ring.
//
// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005,
// on all-reduce. In both, rank r exchanges with r ^ 1, r ^ 2, r ^ 4, …: the rank whose number differs in one bit, a
// butterfly. That needs a power of two; otherwise the ranks beyond it are spare.
//
// All functions work in place, on any size and dtype, the same on every rank.
#pragma once

#include "common/chunk.hpp"
#include "common/rank.hpp"

namespace lockstep::week21 {

/// Given: how many of `ranks` form the butterfly: the largest power of two that is at most `ranks`.
int butterfly_ranks(int ranks);

/// Given: what rank `rank` of the butterfly still works on after `halvings` halvings of `data`, which it shares with
/// the ranks whose numbers have the same last `halvings` bits. Bit i of `rank` says which half the i-th halving keeps:
/// the first (0, longer by one element where the number is odd) or the second (1). It may be empty.
Slice part_after(Slice data, int rank, int halvings);

/// Part a. Ranks 0 … b − 1 (b = butterfly_ranks(p)) call it; each ends with the sum of these b ranks' arrays, with the
/// same bits. lg b steps, at the distances in any order, each one exchange of the whole array. Sent per rank: n·lg b.
/// Memory: one scratch like `data`.
void recursive_doubling(Rank me, Slice data);

/// Part b. Every rank calls both. `fold`: each spare rank r (b … p − 1) gives its array to its partner, rank r − b,
/// which adds it to its own. `unfold`: the spare ranks get `data` back from it. If p is a power of two, nothing
/// happens. One step each; n bytes from a spare rank, n bytes to it. Memory, only on a partner: one scratch like
/// `data`.
void fold(Rank me, Slice data);
void unfold(Rank me, Slice data);

/// Part c. Ranks 0 … b − 1 call it. Afterwards part_after(data, r, lg b) of rank r is the sum of that part over these
/// ranks; the rest of `data` holds partial sums that are not needed. lg b steps: with the nearest partner half the
/// array, with the next a quarter, … Sent per rank: all but its own part, (b − 1)/b·n. Memory: a scratch of half the
/// array.
void halving_reduce_scatter(Rank me, Slice data);

/// Part d. Ranks 0 … b − 1 call it. Before, part_after(data, r, lg b) of rank r is what all ranks must get; afterwards
/// `data` is the same on all. lg b steps, the shortest messages first. Sent per rank: (b − 1)/b·n. No scratch.
void doubling_all_gather(Rank me, Slice data);

/// Given: fold, recursive doubling, unfold. ⌊lg p⌋ steps, and two more where p is not a power of two.
void recursive_doubling_all_reduce(Rank me, Slice data);

/// Given: Rabenseifner's algorithm: fold, halve, double, unfold. 2⌊lg p⌋ steps, and two more where p is not a power of
/// two.
void rabenseifner_all_reduce(Rank me, Slice data);

}  // namespace lockstep::week21
