// The verbs.
#include "common/backends/mpi/rank.hpp"

#include <fmt/format.h>

#include <cstring>

#include "common/backends/mpi/status.hpp"

namespace lockstep::mpi {

// Who calls ---------------------------------------------------------------------------------------------------------

Queue* MpiRank::enter(int index, Location where) {
  // A destructor's verb during an exception does nothing: it could wait for ever, or throw a second one.
  if (std::uncaught_exceptions() > 0) return nullptr;
  if (job_.failed.load(std::memory_order_acquire)) throw Unwind{};
  Queue& queue = *queues_[index];
  if (queue.is_mine()) {
    queue.last_call.store(where, std::memory_order_relaxed);
    return &queue;
  }
  if (index != 0) usage_error(queue_outside_closure(queue.name), where);
  for (int other = 1; other < queue_count_; ++other)
    if (queues_[other]->is_mine()) usage_error(main_inside_closure(queues_[other]->name), where);
  usage_error("a Rank was used by a thread that is none of its queues", where);
}

Group& MpiRank::group(int index, Location where) {
  if (index < 0 || groups_[index]->rank < 0) usage_error(not_in_group(job_.rank), where);
  return *groups_[index];
}

Rank MpiRank::handle(int index, int queue) {
  const Group& of = group(index);
  return Rank(*this, index, queue, of.rank, static_cast<int>(of.members.size()));
}

Endpoint& MpiRank::endpoint(int group, int queue) { return *endpoints_[queue][group]; }

// Messages ----------------------------------------------------------------------------------------------------------

Ticket MpiRank::start(CommunicatorKey at, std::span<const Transfer> transfers, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return {};
  const double now = time_of(*queue);
  const std::vector<int>& members = groups_[at.group]->members;
  const char* region =
      job_.record([&](Recorder& recorder) { return recorder.batch_started(at.queue, at.group, members, transfers); });
  std::lock_guard gate(job_.gate);
  const std::uint64_t number = endpoint(at.group, at.queue).start(transfers, where, region, now);
  return {Ticket::Kind::batch, at.group, at.queue, number};
}

void MpiRank::wait(CommunicatorKey at, Ticket ticket, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return;
  if (ticket.kind == Ticket::Kind::batch)
    wait_for_batch(*queue, ticket, where);
  else
    wait_for_closure(*queue, ticket, where);
}

void MpiRank::wait_for_batch(Queue& queue, Ticket ticket, Location where) {
  if (ticket.queue != queue.index) usage_error(waited_on_wrong_queue(queues_[ticket.queue]->name, queue.name), where);
  Endpoint* waited = nullptr;
  {
    std::lock_guard gate(job_.gate);
    waited = &endpoint(ticket.group, ticket.queue);
  }
  if (ticket.number > waited->started()) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= waited->released()) return;
  const double before = begin_of(queue);
  double end = 0;
  const Doing doing{.kind = Doing::Kind::waits_for_batch, .where = where, .endpoint = waited, .number = ticket.number};
  auto complete = [&] {
    if (waited->completed() < ticket.number) return false;
    end = waited->end_of(ticket.number);
    return true;
  };
  if (!poll_until(queue, doing, complete, [&] { return waited->earliest_end(); })) return;
  queue.clock = std::max(queue.clock, end);
  const double after = job_.emulate() ? end_of(queue) : std::max(before, end);
  job_.record([&](Recorder& recorder) {
    recorder.waited(queue.index, before, after, where, recorder.waits_for(queue.index, ticket));
  });
  std::lock_guard gate(job_.gate);
  waited->release(ticket.number);
}

void MpiRank::advance_endpoints() {
  for (Endpoint* each : all_endpoints_)
    if (!each->idle()) each->advance();
}

bool MpiRank::sleep_for_link(double until) {
  constexpr std::uint64_t kLongest = 2'000'000;  // ns; then failures are looked for
  job_.polling.fetch_sub(1, std::memory_order_relaxed);
  sleep_until_ns(std::min(job_.clock.ns_of(until), monotonic_ns() + kLongest));
  job_.polling.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// Closures ----------------------------------------------------------------------------------------------------------

Ticket MpiRank::run(CommunicatorKey, Rank as, std::function<void(Rank)> f, Location where) {
  Queue* main = enter(0, where);
  if (!main) return {};
  job_.record([&](Recorder& recorder) { recorder.closure_issued(as.queue(), job_.clock.now()); });
  const std::uint64_t number = queues_[as.queue()]->push(std::move(f), as, where, main->clock);
  return {Ticket::Kind::closure, as.group(), as.queue(), number};
}

void MpiRank::wait_for_closure(Queue& main, Ticket ticket, Location where) {
  if (main.index != 0) usage_error(kClosureTicketOnMain, where);
  if (ticket.queue >= queue_count_) usage_error(kTicketOfAnotherRank, where);
  Queue& queue = *queues_[ticket.queue];
  if (ticket.number > queue.pushed()) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= queue.released()) return;
  const double before = begin_of(main);
  main.set_doing(
      {.kind = Doing::Kind::waits_for_closure, .where = where, .number = ticket.number, .queue = ticket.queue});
  job_.working.fetch_sub(1);
  const bool ended = queue.wait_for(ticket.number);
  job_.working.fetch_add(1);
  main.set_doing({.kind = Doing::Kind::own_code, .where = where});
  if (!ended) {
    if (std::uncaught_exceptions() == 0) throw Unwind{};
    return;
  }
  main.clock = std::max(main.clock, queue.release(ticket.number));
  const double after = end_of(main);
  job_.record([&](Recorder& recorder) { recorder.waited(0, before, after, where, recorder.waits_for(0, ticket)); });
}

// Arithmetic --------------------------------------------------------------------------------------------------------

void MpiRank::compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return;
  keep_messages_moving(operation);
  queue->set_doing({.kind = Doing::Kind::computes, .operation = operation.name, .where = where});
  const double begin = begin_of(*queue);
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
    const OperationPrice price{own, own > 0 ? job_.options.machine.overhead(operation) : 0};
    recorder.busy(at.queue, begin, end, operation.name, operation.flop, where, recorder.position(at.queue), price);
  });
}

void MpiRank::keep_messages_moving(const Operation& operation) {
  // To wake a thread costs more than a short operation takes, and it would come too late: the caller looks itself.
  constexpr double kFlopPerSecond = 5e10, kBytesPerSecond = 3e10;  // of one core, about
  if (job_.outstanding.load(std::memory_order_relaxed) == 0) return;
  const double seconds = operation.flop / kFlopPerSecond + operation.bytes / kBytesPerSecond;
  if (job_.emulate() || seconds > std::chrono::duration<double>(kLongestNap).count()) return wake_progress();
  if (!job_.gate.try_lock()) return;  // somebody does
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
  while (end < operation_end_) {  // other queues may lengthen it meanwhile
    end = operation_end_;
    lock.unlock();
    sleep_until_ns(job_.clock.ns_of(end));
    lock.lock();
  }
  queue.clock = operation_end_;
  operation_end_ = -1;
}

// Memory ------------------------------------------------------------------------------------------------------------

Slice MpiRank::allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) {
  (void)enter(at.queue, where);
  const std::size_t bytes = count * bytes_of(dtype);
  std::unique_lock lock(memory_mutex_);
  void* data = nullptr;
  if (bytes > 0) {
    try {
      data = heap_.take(bytes);
    } catch (const std::bad_alloc&) {
      throw Error(Verdict::fail, fmt::format("out of memory: {} bytes for {}", bytes, to_string(category)));
    }
  }
  auto block = std::make_unique<Block>();
  block->threads = true;
  block->category = category;
  block->dtype = dtype;
  block->queue = at.queue;
  block->data = data;
  block->bytes = bytes;
  block->owner = this;
  block->id = ++blocks_;
  block->where = where;
  ++live_blocks_;
  lock.unlock();
  if (data && job_.options.poison) std::memset(data, 0xff, bytes);
  job_.record([&](Recorder& recorder) { recorder.allocated(at.queue, category, bytes); });
  return Slice(*block.release());
}

void MpiRank::release(Block& block) {
  job_.record([&](Recorder& recorder) { recorder.released(block.queue, block.category, block.bytes); });
  std::lock_guard lock(memory_mutex_);
  --live_blocks_;
  if (block.data) heap_.give(block.data, block.bytes);
  delete &block;
}

// Regions, synchronisation, clocks ------------------------------------------------------------------------------------

void MpiRank::open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) {
  (void)enter(at.queue, where);
  job_.record([&](Recorder& recorder) { recorder.open_region(at.queue, name, bytes, job_.clock.now()); });
}

void MpiRank::close_region(int queue) {
  job_.record([&](Recorder& recorder) { recorder.close_region(queue, job_.clock.now()); });
}

void MpiRank::upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) {
  if (!enter(at.queue, where)) return;
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
  RankLedger ledger = job_.record([](Recorder& recorder) { return recorder.ledger(); });
  std::lock_guard gate(job_.gate);
  for (const Endpoint* each : all_endpoints_)
    for (std::size_t member = 0; member < each->members().size(); ++member) {
      const Traffic& traffic = each->traffic()[member];
      if (traffic.messages_sent + traffic.messages_received == 0) continue;
      ledger.traffic.messages_sent += traffic.messages_sent;
      ledger.traffic.messages_received += traffic.messages_received;
      ledger.traffic.bytes_sent += traffic.bytes_sent;
      ledger.traffic.bytes_received += traffic.bytes_received;
      ledger.peers.push_back({each->group(), each->members()[member], traffic});
    }
  ledger.seconds = end_seconds_ > 0 ? end_seconds_ : job_.clock.now();
  return ledger;
}

std::vector<std::string> MpiRank::queue_names() const {
  std::vector<std::string> names;
  for (int queue = 0; queue < queue_count_; ++queue) names.push_back(queues_[queue]->name);
  return names;
}

}  // namespace lockstep::mpi
