#include "common/backends/nccl/bootstrap.hpp"

#include <fmt/format.h>

#include "common/error.hpp"

namespace lockstep::nccl {

namespace {

class Alone final : public Bootstrap {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& mine) override { return {mine}; }
};

}  // namespace

std::unique_ptr<Bootstrap> make_bootstrap(const Environment& environment) {
  if (environment.ranks > 1 && !environment.store.empty()) return make_tcp_bootstrap(environment);
  if (environment.mpi)
    if (auto mpi = make_mpi_bootstrap()) {
      if (mpi->size() == environment.ranks) return mpi;
      throw Error(Verdict::usage,
                  fmt::format("{} processes were started, but MPI knows of {}: mpirun belongs to another MPI library "
                              "than the program",
                              environment.ranks, mpi->size()));
    }
  if (environment.ranks == 1) return std::make_unique<Alone>();
  throw Error(
      Verdict::usage,
      fmt::format("this is rank {} of {} (says {}), but it has no way to find the others: set LOCKSTEP_STORE to "
                  "tcp://HOST:PORT, where rank 0 can listen; launch/local.sh and launch/srun.sh do",
                  environment.rank, environment.ranks, environment.launcher));
}

}  // namespace lockstep::nccl
