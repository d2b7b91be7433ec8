// MPI calls return codes; here they become the runtime's exception.
#pragma once

#include <mpi.h>

#include "common/error.hpp"
#include "common/runtime/errors.hpp"

namespace lockstep::mpi {

/// Throws Error(fail) with MPI's own words unless `status` is MPI_SUCCESS.
void check(int status, Location where = Location::current());

/// MPI's words for an error code.
std::string words(int status);

}  // namespace lockstep::mpi
