// Which rank is on which host, and how many cores each host has for them.
#pragma once

#include <mpi.h>

#include <vector>

namespace lockstep::mpi {

struct Place {
  int host = 0;   // by number, the same on every process
  int cores = 1;  // usable ones of that host, in all
};

/// Collective. Cores are counted over the affinity masks of all processes of a host, since a launcher may have bound
/// each to cores of its own.
std::vector<Place> take_seats(MPI_Comm world);

}  // namespace lockstep::mpi
