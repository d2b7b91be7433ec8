// The verbs on MPI.
#include "common/backends/mpi/rank.hpp"

#include <fmt/format.h>

#include <cstring>

#include "common/backends/mpi/status.hpp"

namespace lockstep::mpi {

// Waiting -----------------------------------------------------------------------------------------------------------

void MpiRank::wait_for_batch(Queue& queue, Endpoint& waited, Ticket ticket, Location where) {
  const double before = begin_of(queue, job_.now());
  double end = 0;
  const Doing doing{
      .kind = Doing::Kind::waits_for_batch, .where = where, .group = ticket.group, .number = ticket.number};
  auto complete = [&] {
    if (!waited.ready(ticket.number)) return false;
    end = waited.end_of(ticket.number);
    return true;
  };
  if (!poll_until(queue, doing, complete, [&] { return waited.earliest_end(); })) return;
  queue.after(end);
  const double after = job_.emulate() ? end_of(queue) : std::max(before, end);
  job_.record([&](Recorder& recorder) {
    recorder.waited(queue.index, before, after, where, recorder.waits_for(queue.index, ticket));
  });
  std::lock_guard gate(job_.gate);
  waited.release(ticket.number);
}

void MpiRank::go_on_after(Queue& queue, Ticket closure, double began, Location where) {
  Queue& main = *queues_[0];
  const double before = begin_of(main, began);
  main.after(queue.end_of(closure.number));
  const double after = end_of(main);
  job_.record([&](Recorder& recorder) { recorder.waited(0, before, after, where, recorder.waits_for(0, closure)); });
}

void MpiRank::advance_endpoints() {
  for (Endpoint* each : all_endpoints_)
    if (!each->idle()) each->advance();
}

bool MpiRank::sleep_for_link(double until) {
  constexpr std::uint64_t kLongest = 2'000'000;  // ns; then checks for failures
  job_.polling.fetch_sub(1, std::memory_order_relaxed);
  sleep_until_ns(std::min(job_.clock.ns_of(until), monotonic_ns() + kLongest));
  job_.polling.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// Arithmetic --------------------------------------------------------------------------------------------------------

void MpiRank::compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return;
  keep_messages_moving(operation);
  queue->set_doing({.kind = Doing::Kind::computes, .operation = operation.name, .where = where});
  const double begin = begin_of(*queue, job_.now());
  job_.computing.fetch_add(1, std::memory_order_relaxed);
  kernel(*device_);
  job_.computing.fetch_sub(1, std::memory_order_relaxed);
  const double own = job_.emulate() ? job_.options.machine.seconds(operation) : 0;
  if (job_.emulate()) pass_modelled_time(*queue, own);
  queue->set_doing({.kind = Doing::Kind::own_code, .where = where});
  const std::uint64_t now = monotonic_ns();
  job_.note_activity(now);
  const double end = queue->last_end = job_.clock.at(now);
  job_.record([&](Recorder& recorder) {
    recorder.busy(at.queue, begin, end, operation.name, operation.flop, where, recorder.position(at.queue),
                  {own, own > 0 ? job_.options.machine.overhead(operation) : 0, operation.flop, operation.bytes,
                   recorder.uses_of(operation)});
  });
}

void MpiRank::keep_messages_moving(const Operation& operation) {
  // Waking a thread takes longer than a short operation and would come too late; the caller makes progress itself.
  constexpr double kFlopPerSecond = 5e10, kBytesPerSecond = 3e10;  // of one core, roughly
  if (job_.outstanding.load(std::memory_order_relaxed) == 0) return;
  const double seconds = operation.flop / kFlopPerSecond + operation.bytes / kBytesPerSecond;
  if (job_.emulate() || seconds > std::chrono::duration<double>(kLongestNap).count()) return wake_progress();
  if (!job_.gate.try_lock()) return;  // another thread does
  std::lock_guard gate(job_.gate, std::adopt_lock);
  advance_endpoints();
}

void MpiRank::pass_modelled_time(Queue& queue, double seconds) {
  const double begin = queue.clock;
  std::unique_lock lock(operation_mutex_);
  if (queue.index != 0) {
    if (begin >= operation_begin_ && begin < operation_end_) operation_end_ += seconds;
    lock.unlock();
    queue.clock = begin + seconds;
    sleep_until_ns(job_.clock.ns_of(queue.clock));
    return;
  }
  operation_begin_ = begin;
  operation_end_ = begin + seconds;
  double end = 0;
  while (end < operation_end_) {  // other queues may have extended it
    end = operation_end_;
    lock.unlock();
    sleep_until_ns(job_.clock.ns_of(end));
    lock.lock();
  }
  queue.clock = operation_end_;
  operation_end_ = -1;
}

// Memory ------------------------------------------------------------------------------------------------------------

void* MpiRank::take_memory(Queue&, std::size_t bytes, Category category, Location where) {
  std::unique_lock lock(memory_mutex_);
  void* data = nullptr;
  try {
    data = heap_.take(bytes);
  } catch (const std::bad_alloc&) {
    throw out_of_memory(bytes, category, where);
  }
  lock.unlock();
  if (job_.options.poison) std::memset(data, 0xff, bytes);
  return data;
}

void MpiRank::give_memory(const Block& block) {
  std::lock_guard lock(memory_mutex_);
  heap_.give(block.data, block.bytes);
}

// Regions, synchronisation, clocks ------------------------------------------------------------------------------------

void MpiRank::open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) {
  (void)enter(at.queue, where);
  job_.record([&](Recorder& recorder) { recorder.open_region(at.queue, name, bytes, job_.clock.now(), where); });
}

void MpiRank::close_region(int queue) {
  job_.record([&](Recorder& recorder) { recorder.close_region(queue, job_.clock.now()); });
}

void MpiRank::upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) {
  if (!enter(at.queue, where)) return;
  job_.record([&](Recorder& recorder) { recorder.uploaded(slice); });
  std::memcpy(slice.data(), values, slice.bytes());
}

bool MpiRank::download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) {
  if (!enter(at.queue, where)) return false;
  job_.record([](Recorder& recorder) { recorder.read(); });
  std::memcpy(bytes, slice.data(), slice.bytes());
  return true;
}

bool MpiRank::peek(CommunicatorKey, const Slice& slice, void* bytes) {
  std::memcpy(bytes, slice.data(), slice.bytes());
  return true;
}

double MpiRank::now(int) const { return job_.clock.now(); }

RankLedger MpiRank::ledger() const {
  RankLedger ledger = ledger_without_seconds();
  ledger.seconds = end_seconds_ > 0 ? end_seconds_ : job_.clock.now();
  return ledger;
}

}  // namespace lockstep::mpi
