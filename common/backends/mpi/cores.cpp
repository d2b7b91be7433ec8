#include "common/backends/mpi/cores.hpp"

#include <array>

#include "common/backends/mpi/status.hpp"
#include "common/support/host/host.hpp"

namespace lockstep::mpi {

std::vector<Placement> gather_placements(MPI_Comm world) {
  int rank = 0, size = 1;
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));

  std::array<unsigned char, 8192> allowed{};  // one byte per hardware thread
  for (const int thread : allowed_threads())
    if (thread < static_cast<int>(allowed.size())) allowed[thread] = 1;
  check(
      MPI_Allreduce(MPI_IN_PLACE, allowed.data(), static_cast<int>(allowed.size()), MPI_UNSIGNED_CHAR, MPI_MAX, host));
  std::vector<int> threads;
  for (int thread = 0; thread < static_cast<int>(allowed.size()); ++thread)
    if (allowed[thread]) threads.push_back(thread);

  Placement mine{.host = rank, .cores = read_host("", threads).usable_cores};
  check(MPI_Bcast(&mine.host, 1, MPI_INT, 0, host));  // identifies a host by the rank of its first process
  MPI_Comm_free(&host);
  std::vector<Placement> places(size);
  check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, places.data(), sizeof mine, MPI_BYTE, world));
  return places;
}

}  // namespace lockstep::mpi
