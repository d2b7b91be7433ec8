// Gathers bytes of every process, by rank. MPI counts bytes and offsets in int, so larger totals travel in rounds.
#pragma once

#include <mpi.h>

#include <limits>
#include <string>
#include <vector>

namespace lockstep::mpi {

/// One round: number of bytes from each rank, and their offsets in the received data.
struct GatherRound {
  std::vector<int> counts, offsets;
};

/// Plans the next round. Ranks have `lengths` bytes, of which earlier rounds sent `done` each (or all that they have).
/// A round has at most `most` bytes in total, which must be at least one byte per rank.
GatherRound gather_round(const std::vector<std::size_t>& lengths, std::size_t done, std::size_t most);

/// Collective. Returns every rank's `mine` on all ranks; with for_all = false on rank 0 only, and nothing elsewhere.
std::vector<std::string> gather(MPI_Comm comm, const std::string& mine, bool for_all = true,
                                std::size_t most = std::numeric_limits<int>::max());

}  // namespace lockstep::mpi
