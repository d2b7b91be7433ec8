// Placement: the host of each rank, and the number of cores that each host has.
#pragma once

#include <mpi.h>

#include <vector>

namespace lockstep::mpi {

struct Placement {
  int host = 0;   // number of the host, the same on every process
  int cores = 1;  // usable cores of that host, in total
};

/// Collective: the place of every process. Cores are counted over the affinity masks of all processes of a host, since
/// a launcher may have bound each process to its own cores.
std::vector<Placement> gather_placements(MPI_Comm world);

}  // namespace lockstep::mpi
