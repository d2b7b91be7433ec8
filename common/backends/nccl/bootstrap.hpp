// Exchanges the first few bytes between processes that know only their rank: over MPI if available, otherwise over a
// TCP port.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/backends/nccl/environment.hpp"

namespace lockstep::nccl {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Every process's bytes, by rank. Collective. Throws Error(fail) that names a rank that does not arrive in time.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  /// Returns once all processes have called it.
  void barrier() { (void)all_gather(""); }
  /// Rank 0's bytes, on every rank.
  std::string broadcast(const std::string& bytes) { return all_gather(rank() == 0 ? bytes : "").front(); }
};

/// Meets at environment.store, tcp://HOST:PORT: rank 0 listens there; the others connect, and wait for it. Throws
/// Error(usage) for other stores.
std::unique_ptr<Bootstrap> make_tcp_bootstrap(const Environment& environment);

/// Meets over MPI_COMM_WORLD: initialises MPI, and finalises it on destruction. Null if this build has no MPI.
std::unique_ptr<Bootstrap> make_mpi_bootstrap();

/// Chooses: the store if one is named, else MPI if its launcher started this process, else a single process. Throws
/// Error(usage) that says what to set if there are several processes and no way to meet.
std::unique_ptr<Bootstrap> make_bootstrap(const Environment& environment);

}  // namespace lockstep::nccl
