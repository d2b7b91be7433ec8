// One run as one process sees it: what its threads (main, queues, progress) share.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "common/backends/mpi/clock.hpp"
#include "common/backends/mpi/ports.hpp"
#include "common/runtime/ledger/recorder.hpp"
#include "common/runtime/processes/failure.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::mpi {

using processes::Failure;

struct Job : processes::FirstFailure {
  Job(const RunOptions& o, int rank, int ranks)
      : options(o), rank(rank), ranks(ranks), recorder(rank, o.trace, o.emulate ? &o.machine : nullptr) {}

  const RunOptions& options;
  MPI_Comm comm = MPI_COMM_NULL;  // of all ranks: set-up, start and end
  const int rank;
  const int ranks;
  std::string host;
  int cores_per_rank = 1;  // on this host; 0 where ranks outnumber cores
  Clock clock;
  std::unique_ptr<Ports> ports;  // while emulating

  Gate gate;                                       // before any call of MPI, and around endpoints and control
  std::atomic<int> outstanding{0};                 // batches started and not complete
  std::atomic<int> computing{0};                   // threads in arithmetic
  std::atomic<int> polling{0};                     // threads that look after progress themselves
  std::atomic<int> working{0};                     // threads with something to do that is not waiting
  std::atomic<std::uint64_t> activity{0};          // counts operations and completions
  std::atomic<std::uint64_t> last_activity_ns{0};  // the last time anything completed

  Recorder recorder;
  std::mutex recorder_mutex;

  bool checked() const { return options.check_races || options.emulate; }  // messages carry headers
  bool emulate() const { return options.emulate; }
  /// What a thread that waits may take of the cores.
  SpinPolicy spin_policy() const {
    if (computing.load(std::memory_order_relaxed) > 0) return SpinPolicy::sleep;
    return cores_per_rank == 0 ? SpinPolicy::yield : SpinPolicy::spin;
  }
  void note_activity() { note_activity(monotonic_ns()); }
  void note_activity(std::uint64_t ns) {
    activity.fetch_add(1, std::memory_order_relaxed);
    last_activity_ns.store(ns, std::memory_order_relaxed);
  }

  double now() const { return clock.now(); }
  double idle_seconds() const {
    return static_cast<double>(static_cast<std::int64_t>(monotonic_ns() - last_activity_ns.load())) * 1e-9;
  }

  /// Ends this rank: the first failure counts, and is told to the others. Any thread, gate held or not.
  void fail(Verdict verdict, std::string message) {
    learn({.verdict = verdict, .rank = rank, .origin = rank, .when = now(), .message = std::move(message)});
  }
  /// The ledgers are written by one thread at a time.
  template <class F>
  auto record(F f) {
    std::lock_guard lock(recorder_mutex);
    return f(recorder);
  }
};

}  // namespace lockstep::mpi
