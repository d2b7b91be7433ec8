// Finds the cause of a deadlock, on every backend: a cycle of ranks that wait, or a rank that waits for an ended one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

constexpr std::size_t kMostLinks = 8;  // maximum number of ranks that are named one by one

/// One of those that cannot make progress: a rank, or a queue of one.
struct Waiting {
  int rank = 0;         // world rank
  int needs = -1;       // index of what it waits for; −1: nothing that waits
  int needs_rank = -1;  // the rank of that; −1 with needs = −1: it is not stuck
  bool starts = true;   // false: only a link of other chains, such as a queue other than main
};

/// Follows needs until they close a cycle or end at a program that has ended. Returns the indices of the cycle,
/// starting at its smallest rank, or of the one that waits for an ended rank; empty if there is neither.
std::vector<int> find_chain(std::span<const Waiting> all);

/// "2 ranks wait for each other in a cycle: 0 → 1 → 0.", or "rank 0 waits for rank 1, whose program has ended.", or "".
std::string who_waits(std::span<const Waiting> all, std::span<const int> chain);

}  // namespace lockstep
