// Exercise 21.0: first messages. Ungraded; it shows the calls from which everything later is built, and what happens
// when ranks wait for each other.
#pragma once

#include "common/rank.hpp"

namespace lockstep::week21 {

/// Part a. Every rank says hello: `mine` goes to the next rank, the hello of the previous one arrives in `theirs`. The
/// next rank of p − 1 is 0. Both slices are of one size and dtype, the same on every rank; `mine` is not changed.
void ring_of_hellos(Rank me, Slice mine, Slice theirs);

/// Part b. Afterwards `data` on every rank equals rank `root`'s, 0 ≤ root < p. Every rank passes the same root and
/// size. Every rank but the root receives the array exactly once.
void broadcast(Rank me, Slice data, int root);

/// Part c. Returns on no rank before every rank has called it. (After MPI_Barrier; the solution's rounds are those of
/// Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988.)
void barrier(Rank me);

/// The rank that `me` swaps with: 0 and 1, 2 and 3, …; where p is odd the last rank has no partner, and gets itself.
int partner_of(Rank me);

/// Part d. Given, and wrong: it deadlocks as soon as the slices are large. The test runs it and shows why.
void swap_that_deadlocks(Rank me, Slice mine, Slice theirs);

/// Part d, fixed: partners swap. `mine` arrives in the partner's `theirs`, for slices of any size (the same on every
/// rank). A rank without a partner finds its own values in `theirs`.
void swap_with_partner(Rank me, Slice mine, Slice theirs);

}  // namespace lockstep::week21
