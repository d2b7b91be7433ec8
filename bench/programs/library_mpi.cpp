// MPI's version.
#include <mpi.h>

#include <algorithm>
#include <array>

#include "bench/support/versions.hpp"
#include "common/devices/cpu/cpu_device.hpp"

namespace lockstep::bench {

std::vector<std::pair<std::string, std::string>> library_versions() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string version(text.data(), static_cast<std::size_t>(length));
  version.erase(std::min(version.size(), version.find_first_of(",\n")));
  std::replace(version.begin(), version.end(), '\t', ' ');  // MPICH's is the line of a table
  const auto both_spaces = [](char a, char b) { return a == ' ' && b == ' '; };
  version.erase(std::unique(version.begin(), version.end(), both_spaces), version.end());
  return {{"mpi", version}, {"blas", cpu_blas_name()}};
}

std::vector<std::pair<std::string, std::string>> surroundings() { return {}; }

double gpu_memory_bytes() { return 0; }

}  // namespace lockstep::bench
