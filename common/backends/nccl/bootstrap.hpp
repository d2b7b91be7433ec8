// How processes that know nothing but their number exchange their first few bytes: over MPI where there is one, over a
// TCP port where there is none.
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

  /// Everyone's bytes, by rank. Collective. Throws Error(fail) naming a rank that does not come in time.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  /// Returns when all have called it.
  void barrier() { (void)all_gather(""); }
  /// Rank 0's bytes, on every rank.
  std::string broadcast(const std::string& bytes) { return all_gather(rank() == 0 ? bytes : "").front(); }
};

/// At environment.store, tcp://HOST:PORT: rank 0 listens there; the others connect, and wait for it. Throws
/// Error(usage) for anything else.
std::unique_ptr<Bootstrap> make_tcp_bootstrap(const Environment& environment);

/// Over MPI_COMM_WORLD; initialises MPI, and finalises it at its end. Null where this build has no MPI.
std::unique_ptr<Bootstrap> make_mpi_bootstrap();

/// The one that fits: the store that was named, else MPI where its launcher started us, else one process alone. Throws
/// Error(usage) with what to set where there are several processes and no way to meet.
std::unique_ptr<Bootstrap> make_bootstrap(const Environment& environment);

}  // namespace lockstep::nccl
