// The progress thread: advances batches while all queues compute, answers the other ranks, and watches for hangs.
#include "common/backends/mpi/rank.hpp"

namespace lockstep::mpi {

namespace {
constexpr std::chrono::milliseconds kHeartbeat{5};  // interval of checks for failures and wait tables
}  // namespace

void MpiRank::wake_progress() {
  if (job_.outstanding.load(std::memory_order_relaxed) == 0) return;
  if (!progress_dormant_.exchange(false, std::memory_order_relaxed)) return;
  std::lock_guard lock(progress_mutex_);
  progress_wake_.notify_one();
}

void MpiRank::make_progress() {
  ask_for_exact_sleeps();
  auto nap = kFirstNap;
  std::uint64_t activity = 0;
  auto last_heartbeat = std::chrono::steady_clock::now();
  std::unique_lock lock(progress_mutex_);
  while (!progress_stop_) {
    // Waiting threads make progress themselves; an exchange on main never wakes this thread.
    const bool needed = job_.outstanding.load() > 0 && job_.polling.load() == 0 && !job_.failed;
    progress_dormant_ = !needed;
    progress_wake_.wait_for(lock, needed ? nap : std::chrono::microseconds(kHeartbeat));
    lock.unlock();
    try {
      if (needed) {
        std::lock_guard gate(job_.gate);
        advance_endpoints();
      }
      const auto now = std::chrono::steady_clock::now();
      if (!over_ && now - last_heartbeat >= kHeartbeat) {
        last_heartbeat = now;
        std::lock_guard gate(job_.gate);
        control_->poll();
        control_->look_at_clock();
      }
    } catch (const Error& error) {
      job_.fail(error.verdict(), error.what());
    }
    const bool moved = activity != job_.activity.load();
    activity = job_.activity.load();
    nap = moved ? kFirstNap : std::min(nap * 5 / 4, kLongestNap);
    lock.lock();
  }
}

/// Describes all queues, and the transfers they have begun and not ended, which show a deadlock. A rank with an
/// endpoint that progresses without other ranks does not count as waiting. Gate held.
Row MpiRank::describe_me() {
  Row row = describe_queues();
  row.counted = true;
  const bool sets_up = count_set_ups(row);
  if (queues_[0]->doing().kind == Doing::Kind::sets_up && !sets_up) row.state = Row::State::working;
  for (Endpoint* each : all_endpoints_)
    if (!each->count_transfers(row)) row.state = Row::State::working;
  return row;
}

}  // namespace lockstep::mpi
