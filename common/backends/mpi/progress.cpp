// The progress thread: moves batches on while everybody computes, answers the other ranks, watches for hangs.
#include <fmt/format.h>

#include "common/backends/mpi/rank.hpp"

namespace lockstep::mpi {

namespace {
constexpr std::chrono::milliseconds kHeartbeat{5};  // of failures and wait tables
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
    // Those who wait look after progress themselves; an exchange on main never wakes this thread.
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

namespace {
std::string at(const char* verb, Location where) { return fmt::format("{} at {}", verb, describe(where)); }
}  // namespace

/// Of one queue; gate held.
Row MpiRank::describe_queue(Queue& queue) {
  const Doing doing = queue.doing();
  const Location called = queue.last_call.load(std::memory_order_relaxed);
  Row row;
  row.state = Row::State::working;
  switch (doing.kind) {
    case Doing::Kind::nothing: row.words = "has nothing to do"; break;
    case Doing::Kind::own_code:
      row.words = called.line() == 0 ? "runs code of its own since it began"
                                     : at("runs code of its own since its call", called);
      break;
    case Doing::Kind::computes: row.words = at(fmt::format("computes {}", doing.operation).c_str(), doing.where); break;
    case Doing::Kind::finished:
      row.state = Row::State::finished;
      row.words = "has ended";
      break;
    case Doing::Kind::sets_up:
      row.state = Row::State::waiting;  // unless count_set_ups finds that it is over
      row.words = at("waits", doing.where) + fmt::format(": for the others to call {}", doing.operation);
      break;
    case Doing::Kind::waits_for_closure:
      if (!queues_[doing.queue]->has_ended(doing.number)) row.state = Row::State::waiting;
      row.words =
          at("waits", doing.where) + fmt::format(": for its closure on queue \"{}\"", queues_[doing.queue]->name);
      break;
    case Doing::Kind::waits_for_batch: {
      if (doing.endpoint->completed() < doing.number) row.state = Row::State::waiting;
      row.words = at("waits", doing.where);
      if (queue.index != 0)
        row.words += fmt::format(" on queue \"{}\", in the closure run at {}", queue.name, describe(queue.running()));
      Endpoint* on = const_cast<Endpoint*>(doing.endpoint);
      row.words += fmt::format(", batch {}", on->completed() + 1);
      if (on->group() != 0) row.words += fmt::format(" of a group of {}", on->members().size());
      const Endpoint::Outstanding outstanding = on->outstanding();
      if (outstanding.region) row.words += fmt::format(" in region \"{}\"", outstanding.region);
      row.words += ": " + (outstanding.words.empty() ? "nothing is outstanding" : outstanding.words);
      row.peer = outstanding.peer;
      break;
    }
  }
  return row;
}

/// All queues of this rank; gate held. It waits if all of them do, and no endpoint goes on without the other ranks.
Row MpiRank::describe_me() {
  const Doing doing = queues_[0]->doing();
  Row row = describe_queue(*queues_[0]);
  for (int queue = 1; queue < queue_count_; ++queue) {
    const Row other = describe_queue(*queues_[queue]);
    if (queues_[queue]->running().line() == 0) continue;
    row.words += fmt::format("; queue \"{}\" {}", queues_[queue]->name, other.words);
    if (other.state == Row::State::working) row.state = Row::State::working;
    if (doing.kind == Doing::Kind::waits_for_closure && doing.queue == queue) row.peer = other.peer;
  }
  row.counted = true;
  const bool sets_up = count_set_ups(row);
  if (doing.kind == Doing::Kind::sets_up && !sets_up) row.state = Row::State::working;
  for (Endpoint* each : all_endpoints_)
    if (!each->count_transfers(row)) row.state = Row::State::working;
  row.activity = job_.activity.load();
  row.idle_seconds = job_.idle_seconds();
  return row;
}

}  // namespace lockstep::mpi
