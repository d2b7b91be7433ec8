// MPI's own all-reduce, and its version.
#include <mpi.h>

#include <array>
#include <map>
#include <memory>

#include "bench/library_all_reduce.hpp"
#include "bench/support/versions.hpp"
#include "common/device/cpu/cpu_device.hpp"

namespace lockstep::bench {

namespace {

/// The first `ranks` processes, which alone call this; the others wait for the next run.
MPI_Comm communicator_of(int ranks) {
  MPI_Group world = MPI_GROUP_NULL, first = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int range[1][3] = {{0, ranks - 1, 1}};
  MPI_Group_range_incl(world, 1, range, &first);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_create_group(MPI_COMM_WORLD, first, 0, &comm);
  MPI_Group_free(&first);
  MPI_Group_free(&world);
  return comm;
}

}  // namespace

std::function<void(Rank, Slice)> library_all_reduce() {
  auto made = std::make_shared<std::map<int, MPI_Comm>>();  // by ranks; MPI_Finalize frees them
  return [made](Rank me, Slice data) {
    auto found = made->find(me.size());
    if (found == made->end()) found = made->emplace(me.size(), communicator_of(me.size())).first;
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, found->second);
  };
}

std::vector<std::pair<std::string, std::string>> library_versions() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string version(text.data(), static_cast<std::size_t>(length));
  return {{"mpi", version.substr(0, version.find_first_of(",\n"))}, {"blas", cpu_blas_name()}};
}

std::vector<std::pair<std::string, std::string>> surroundings() { return {}; }

}  // namespace lockstep::bench
