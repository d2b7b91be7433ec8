// A rank from the program's first line to the moment when all ranks know how the run ended.
#include <fmt/format.h>

#include <cstring>

#include "common/backends/mpi/rank.hpp"
#include "common/backends/mpi/status.hpp"

namespace lockstep::mpi {

Values MpiRank::play(const Program& program) {
  Values values;
  queues_[0]->set_doing({.kind = Doing::Kind::own_code});
  try {
    values = program(handle(0, 0));
    check_all_waited();
  } catch (const Unwind&) {
  } catch (...) {
    const Caught error = caught();
    job_.fail(error.verdict, fmt::format("rank {} on {}: {}", job_.rank, job_.host, error.what));
  }
  end_seconds_ = job_.clock.now();
  queues_[0]->set_doing({.kind = Doing::Kind::finished});
  job_.working.fetch_sub(1);
  for (int queue = 1; queue < queue_count_; ++queue) queues_[queue]->stop();
  return values;
}

void MpiRank::check_all_waited() {
  if (job_.failed) throw Unwind{};
  for (int queue = 1; queue < queue_count_; ++queue)
    if (const Closure* closure = queues_[queue]->unwaited())
      usage_error(closure_not_waited_for(queues_[queue]->name), closure->where);
  std::lock_guard gate(job_.gate);
  for (Endpoint* each : all_endpoints_)
    if (const Batch* batch = each->unwaited()) usage_error(kTransfersNotWaitedFor, batch->where);
}

/// A barrier that lets other things happen: `before` must hold to enter it, `meanwhile` is done until it is left.
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
  // Until the last rank has played, any may still fail, or be found to wait for ever.
  barrier([] { return true; }, [] {});
  over_ = true;
  agree_on_failure();
  if (!job_.failed) {
    find_unread();
    agree_on_failure();
  }
  clean_up();
}

/// The earliest failure, on every rank.
void MpiRank::agree_on_failure() {
  struct Entry {
    double when = 0;
    int verdict = 0;
    int rank = -1;
    int length = 0;
  };
  std::lock_guard gate(job_.gate);
  processes::Failure failure = job_.failure();
  Entry mine;
  if (failure.origin == job_.rank)
    mine = {failure.when, static_cast<int>(failure.verdict), failure.rank, static_cast<int>(failure.message.size())};
  std::vector<Entry> all(job_.ranks);
  check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, job_.comm));
  int first = -1;
  for (int rank = 0; rank < job_.ranks; ++rank)
    if (all[rank].verdict != 0 && (first < 0 || all[rank].when < all[first].when)) first = rank;
  if (first < 0) return;
  failure.message.resize(all[first].length);
  check(MPI_Bcast(failure.message.data(), all[first].length, MPI_BYTE, first, job_.comm));
  job_.settle({static_cast<Verdict>(all[first].verdict), all[first].rank, first, all[first].when, failure.message});
}

/// Messages sent to this rank that it never received.
void MpiRank::find_unread() {
  std::lock_guard gate(job_.gate);
  std::vector<std::uint64_t> sent(job_.ranks, 0), received(job_.ranks, 0), expected(job_.ranks, 0);
  for (const Endpoint* each : all_endpoints_)
    for (std::size_t member = 0; member < each->members().size(); ++member) {
      sent[each->members()[member]] += each->traffic()[member].messages_sent;
      received[each->members()[member]] += each->traffic()[member].messages_received;
    }
  check(MPI_Alltoall(sent.data(), 1, MPI_UINT64_T, expected.data(), 1, MPI_UINT64_T, job_.comm));
  std::uint64_t unread = 0;
  for (int rank = 0; rank < job_.ranks; ++rank) unread += expected[rank] - received[rank];
  if (unread == 0) return;
  std::string first;
  while (first.empty())  // it has been sent, so it comes
    for (Endpoint* each : all_endpoints_)
      if (first.empty()) first = each->take_unread();
  job_.fail(Verdict::unread,
            fmt::format("UNREAD: {}, to rank {}, which ended without receiving it{}.", first, job_.rank,
                        unread > 1 ? fmt::format(" (and {} more messages like it)", unread - 1) : ""));
}

/// Nothing of this run is left in MPI's hands afterwards, so that another may follow.
void MpiRank::clean_up() {
  const bool failed = job_.failed;
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
