// How many cores each rank has, of the hosts that the ranks sit on.
#pragma once

#include <vector>

namespace lockstep {

/// Usable cores for each of the first `ranks` ranks on the host of `rank`; 0 when there are fewer than ranks. A seat
/// has a `host` and `cores`, those of that host in all.
template <class Seat>
int cores_per_rank(const std::vector<Seat>& seats, int rank, int ranks) {
  int here = 0;
  for (int other = 0; other < ranks; ++other) here += seats[other].host == seats[rank].host;
  return seats[rank].cores / here;
}

/// A core for each of the first `ranks` ranks, on whichever hosts they sit.
template <class Seat>
bool has_core_each(const std::vector<Seat>& seats, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    if (cores_per_rank(seats, rank, ranks) == 0) return false;
  return true;
}

}  // namespace lockstep
