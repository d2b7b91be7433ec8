// Converts MPI's return codes to the runtime's exception.
#pragma once

#include <mpi.h>

#include "common/error.hpp"
#include "common/runtime/errors.hpp"

namespace lockstep::mpi {

/// Throws Error(fail) with MPI's error message unless `status` is MPI_SUCCESS.
void check(int status, Location where = Location::current());

/// MPI's message for an error code.
std::string words(int status);

}  // namespace lockstep::mpi
