// Replacement for builds without MPI: processes meet at a store.
#include "common/backends/nccl/bootstrap.hpp"

namespace lockstep::nccl {

std::unique_ptr<Bootstrap> make_mpi_bootstrap() { return nullptr; }

}  // namespace lockstep::nccl
