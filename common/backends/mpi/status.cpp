#include "common/backends/mpi/status.hpp"

#include <fmt/format.h>

namespace lockstep::mpi {

std::string words(int status) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  return std::string(text, length);
}

void check(int status, Location where) {
  if (status != MPI_SUCCESS)
    throw Error(Verdict::fail, fmt::format("MPI failed at {}: {}", describe(where), words(status)));
}

}  // namespace lockstep::mpi
