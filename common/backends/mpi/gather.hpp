// Bytes of every process, by rank. MPI counts them in int, and where each rank's begin too: what is longer in all than
// an int can say travels in rounds.
#pragma once

#include <mpi.h>

#include <limits>
#include <string>
#include <vector>

namespace lockstep::mpi {

/// What travels in one round: of each rank so many bytes, which begin there in what arrives.
struct GatherRound {
  std::vector<int> counts, offsets;
};

/// Ranks have `lengths` bytes, of which `done` each (or all that they have) went in rounds before; no round has more
/// than `most` bytes in all, which is at least a byte for each rank.
GatherRound gather_round(const std::vector<std::size_t>& lengths, std::size_t done, std::size_t most);

/// Collective. Every rank's `mine`, on all ranks; with for_all = false on rank 0, and nothing elsewhere.
std::vector<std::string> gather(MPI_Comm comm, const std::string& mine, bool for_all = true,
                                std::size_t most = std::numeric_limits<int>::max());

}  // namespace lockstep::mpi
