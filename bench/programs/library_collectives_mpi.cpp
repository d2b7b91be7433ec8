// MPI's collectives: MPI_Allreduce, MPI_Reduce_scatter_block, MPI_Allgather, MPI_Bcast and MPI_Alltoall.
#include <mpi.h>

#include "bench/programs/library_collectives.hpp"
#include "common/backends/mpi/rank.hpp"
#include "common/backends/mpi/status.hpp"

namespace lockstep::bench {
namespace {

/// Runs `call(arrays, world)` and checks its status.
template <class Call>
CollectiveAlgorithm algorithm(Call call, bool in_place) {
  return {.name = "library",
          .act =
              [=](Rank me, const Arrays& arrays) {
                static_cast<mpi::MpiRank&>(me.backend()).with_world([&](MPI_Comm world) {
                  mpi::check(call(arrays, world));
                });
              },
          .in_place = in_place,
          .counted = false};
}

int count(const Slice& slice) { return static_cast<int>(slice.size()); }

int chunk_count(const Slice& slice, MPI_Comm world) {
  int ranks = 1;
  MPI_Comm_size(world, &ranks);
  return count(slice) / ranks;
}

int all_reduce(const Arrays& arrays, MPI_Comm world) {
  return MPI_Allreduce(MPI_IN_PLACE, arrays.to.data(), count(arrays.to), MPI_FLOAT, MPI_SUM, world);
}

int reduce_scatter(const Arrays& arrays, MPI_Comm world) {
  return MPI_Reduce_scatter_block(arrays.from.data(), arrays.to.data(), count(arrays.to), MPI_FLOAT, MPI_SUM, world);
}

int all_gather(const Arrays& arrays, MPI_Comm world) {
  const int each = count(arrays.from);
  return MPI_Allgather(MPI_IN_PLACE, each, MPI_FLOAT, arrays.to.data(), each, MPI_FLOAT, world);
}

int broadcast(const Arrays& arrays, MPI_Comm world) {
  return MPI_Bcast(arrays.to.data(), count(arrays.to), MPI_FLOAT, 0, world);
}

int all_to_all(const Arrays& arrays, MPI_Comm world) {
  const int each = chunk_count(arrays.from, world);
  return MPI_Alltoall(arrays.from.data(), each, MPI_FLOAT, arrays.to.data(), each, MPI_FLOAT, world);
}

}  // namespace

std::optional<CollectiveAlgorithm> library_collective(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return algorithm(all_reduce, true);
    case Collective::reduce_scatter: return algorithm(reduce_scatter, false);  // in place its result moves to the front
    case Collective::all_gather: return algorithm(all_gather, true);
    case Collective::broadcast: return algorithm(broadcast, true);
    case Collective::all_to_all: return algorithm(all_to_all, false);
  }
  return {};
}

}  // namespace lockstep::bench
