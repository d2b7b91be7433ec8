// Cores per rank on the hosts of a run.
#pragma once

#include <vector>

namespace lockstep {

/// Usable cores per rank, among the first `ranks` ranks, on the host of `rank`; 0 if there are fewer cores than ranks.
/// A place has a `host`, and `cores`, the total of that host.
template <class Placement>
int cores_per_rank(const std::vector<Placement>& places, int rank, int ranks) {
  int here = 0;
  for (int other = 0; other < ranks; ++other) here += places[other].host == places[rank].host;
  return places[rank].cores / here;
}

/// True if there is a core for each of the first `ranks` ranks on their hosts.
template <class Placement>
bool has_core_each(const std::vector<Placement>& places, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    if (cores_per_rank(places, rank, ranks) == 0) return false;
  return true;
}

}  // namespace lockstep
