// One run from the view of one process: the data that its threads (main, queues, progress) share.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <string>

#include "common/backends/mpi/backoff.hpp"
#include "common/backends/mpi/ports.hpp"
#include "common/runtime/processes/job.hpp"

namespace lockstep::mpi {

using processes::monotonic_ns;

struct Job : processes::Job {
  Job(const RunOptions& o, int rank, std::string host, MPI_Comm comm)
      : processes::Job(o, rank, std::move(host), o.emulate ? &o.machine : nullptr), comm(comm) {}

  const MPI_Comm comm;           // all ranks: set-up, start and end
  int cores_per_rank = 1;        // on this host; 0 if there are more ranks than cores
  std::unique_ptr<Ports> ports;  // only while emulating

  std::atomic<int> outstanding{0};  // batches started and not complete
  std::atomic<int> computing{0};    // threads in arithmetic
  std::atomic<int> polling{0};      // threads that make progress themselves

  bool emulate() const { return options.emulate; }
  /// Permitted use of a core by a waiting thread.
  SpinPolicy spin_policy() const {
    if (computing.load(std::memory_order_relaxed) > 0) return SpinPolicy::sleep;
    return cores_per_rank == 0 ? SpinPolicy::yield : SpinPolicy::spin;
  }
};

}  // namespace lockstep::mpi
