// A run on one rank, from the program's first line until all ranks know the outcome.
#include "common/backends/mpi/gather.hpp"
#include "common/backends/mpi/rank.hpp"
#include "common/backends/mpi/status.hpp"

namespace lockstep::mpi {

void MpiRank::begin_program() {
  std::lock_guard gate(job_.gate);
  check(MPI_Barrier(job_.comm));
  std::uint64_t epoch = monotonic_ns();
  if (job_.emulate()) check(MPI_Bcast(&epoch, 1, MPI_UINT64_T, 0, job_.comm));  // one host, one clock
  job_.clock = processes::Clock(epoch, job_.emulate() ? job_.options.emulate_scale : 1);
}

/// A barrier that allows other work: enters once `before` holds, and calls `meanwhile` until all have entered.
void MpiRank::barrier(const std::function<bool()>& before, const std::function<void()>& meanwhile) {
  MPI_Request request = MPI_REQUEST_NULL;
  bool entered = false;
  Backoff backoff;
  while (true) {
    {
      std::lock_guard gate(job_.gate);
      meanwhile();
      if (!entered && before()) {
        check(MPI_Ibarrier(job_.comm, &request));
        entered = true;
      }
      int left = 0;
      if (entered) check(MPI_Test(&request, &left, MPI_STATUS_IGNORE));
      if (left) return;
    }
    backoff.rest(job_.spin_policy());
  }
}

void MpiRank::finish() {
  // Until the last rank has finished, any rank may still fail or turn out to be deadlocked.
  barrier([] { return true; }, [] {});
  over_ = true;
  bool failed = agree_on_failure("played");
  if (!failed) {
    find_unread();
    failed = agree_on_failure("read");
  }
  clean_up(failed);
}

std::vector<std::string> MpiRank::gather(const char*, const std::string& mine, bool for_all) {
  std::lock_guard gate(job_.gate);
  return mpi::gather(job_.comm, mine, for_all);
}

/// Leaves nothing of this run in MPI, so that another run may follow.
void MpiRank::clean_up(bool failed) {
  if (failed) {
    std::lock_guard gate(job_.gate);
    for (Endpoint* each : all_endpoints_) each->withdraw();
    withdraw_set_up();
  }
  auto clean = [&] {
    bool all = control_->quiet();
    if (!failed) return all;
    for (Endpoint* each : all_endpoints_) all = each->abandoned() && all;
    return set_up_abandoned() && all;
  };
  barrier(clean, [&] {
    control_->poll();
    if (failed) (void)clean();
  });
}

}  // namespace lockstep::mpi
