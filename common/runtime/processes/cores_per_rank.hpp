// How many cores each rank has, of the hosts that the ranks sit on.
#pragma once

#include <vector>

namespace lockstep {

/// Usable cores for each of the first `ranks` ranks on the host of `rank`; 0 when there are fewer than ranks. A place
/// has a `host` and `cores`, those of that host in all.
template <class Place>
int cores_per_rank(const std::vector<Place>& places, int rank, int ranks) {
  int here = 0;
  for (int other = 0; other < ranks; ++other) here += places[other].host == places[rank].host;
  return places[rank].cores / here;
}

/// A core for each of the first `ranks` ranks, on whichever hosts they sit.
template <class Place>
bool has_core_each(const std::vector<Place>& places, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    if (cores_per_rank(places, rank, ranks) == 0) return false;
  return true;
}

}  // namespace lockstep
