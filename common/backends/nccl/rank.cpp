// The verbs on NCCL.
#include "common/backends/nccl/rank.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/devices/cuda/status.hpp"

namespace lockstep::nccl {

// Waiting -----------------------------------------------------------------------------------------------------------

bool NcclRank::wait_until(Queue& queue, const Doing& doing, const std::function<bool()>& done) const {
  using namespace std::chrono_literals;
  constexpr int kSpins = 200;
  job_.gate.must_be_open();
  bool found = done();
  if (found) return true;
  queue.set_doing(doing);
  job_.working.fetch_sub(1);
  for (int looks = 0; !found && !job_.failed.load(std::memory_order_relaxed); ++looks) {
    const std::uint64_t seen = job_.control.news();
    found = done();
    if (found) break;
    if (looks < kSpins)
      std::this_thread::yield();
    else
      job_.control.wait_for_news(seen, 100us);
  }
  job_.working.fetch_add(1);
  queue.set_doing({.kind = Doing::Kind::own_code, .where = doing.where});
  if (!found) unwind();
  return found;
}

bool NcclRank::wait_for_gpu(Queue& queue, const cuda::Event& event, Location where) const {
  return wait_until(queue, {.kind = Doing::Kind::waits_for_gpu, .where = where}, [&] { return event.done(); });
}

void NcclRank::advance_endpoints() {
  for (Endpoint* each : all_endpoints_) each->advance();
}

// Times: spans between events, recorded once the GPU has passed them --------------------------------------------------

void Queue::end_stretch() {
  if (!stretch) return;
  const cuda::Event end = here();
  job_.add_span(stretch, end, [index = index, flop = stretch_flop](Recorder& recorder, double from, double to) {
    recorder.busy(index, from, to, "arithmetic", flop, Location{}, 0);
  });
  {
    std::lock_guard lock(backlog_mutex);
    backlog.close(end);
  }
  stretch = {};
  stretch_flop = 0;
}

template <class F>
void NcclRank::waits(Queue& queue, const Ticket& ticket, Location where, F enqueue) {
  queue.end_stretch();
  const std::uint64_t position =
      job_.record([&](Recorder& recorder) { return recorder.waits_for(queue.index, ticket); });
  const cuda::Event before = queue.here();
  enqueue();
  const cuda::Event after = queue.here();
  job_.add_span(before, after, [index = queue.index, where, position](Recorder& recorder, double from, double to) {
    recorder.waited(index, from, to, where, position);
  });
}

void NcclRank::wait_for_batch(Queue& queue, Endpoint& waited, Ticket ticket, Location where) {
  const Doing doing{
      .kind = Doing::Kind::waits_for_batch, .where = where, .group = ticket.group, .number = ticket.number};
  auto launched = [&] {
    std::lock_guard gate(job_.gate);
    advance_endpoints();
    return waited.ready(ticket.number);
  };
  if (!wait_until(queue, doing, launched)) return;
  waits(queue, ticket, where, [&] {
    std::lock_guard gate(job_.gate);
    waited.wait(ticket.number, queue.stream);
  });
}

void NcclRank::go_on_after(Queue& queue, Ticket closure, double, Location where) {
  Queue& main = *queues_[0];
  waits(main, closure, where, [&] { main.after(queue.end_of(closure.number)); });
}

// Arithmetic --------------------------------------------------------------------------------------------------------

void NcclRank::compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return;
  if (!queue->device) queue->device = make_cuda_device(queue->stream.get(), job_.options.tf32, supplies_, queue->index);
  // One span for all operations between two waits costs less than one per operation; a trace shows each.
  if (!queue->stretch) queue->stretch = queue->here();
  const cuda::OperationRange named(operation.name);
  kernel(*queue->device);
  {
    std::lock_guard lock(queue->backlog_mutex);
    queue->backlog.add(operation.name, where, job_.events, queue->stream.get());
  }
  queue->stretch_flop += operation.flop;
  job_.note_activity();
  if (!job_.options.trace) return;
  const cuda::Event end = queue->here();
  const std::uint64_t position = job_.record([&](Recorder& recorder) { return recorder.position(at.queue); });
  job_.add_span(std::exchange(queue->stretch, {}), end,
                [index = at.queue, name = operation.name, flop = std::exchange(queue->stretch_flop, 0), where, position,
                 work = TraceCompute{.flop = operation.flop, .moved = operation.bytes}](Recorder& recorder, double from,
                                                                                        double to) {
                  recorder.busy(index, from, to, name, flop, where, position, work);
                });
}

// Memory ------------------------------------------------------------------------------------------------------------

bool NcclRank::gpu_is_idle() {
  for (int queue = 0; queue < queue_count_; ++queue)
    if (!queues_[queue]->stream.idle()) return false;
  std::lock_guard gate(job_.gate);
  return std::all_of(all_endpoints_.begin(), all_endpoints_.end(),
                     [](const Endpoint* each) { return each->communicator()->stream.idle(); });
}

void* NcclRank::take_memory(Queue& queue, std::size_t bytes, Category category, Location where) {
  void* data = memory_.allocate(bytes, category, queue.stream.get(), where, [&](const std::function<bool()>& done) {
    const Doing waits{.kind = Doing::Kind::waits_for_memory, .where = where, .bytes = bytes, .category = category};
    (void)wait_until(queue, waits, [&] { return done() || gpu_is_idle(); });
  });
  if (data && job_.options.poison)
    cuda::check(cudaMemsetAsync(data, 0xff, bytes, queue.stream.get()), "cudaMemsetAsync");
  return data;
}

/// By contract, other queues' use of the block is ordered before later work of its own queue, so its stream's order is
/// enough.
void NcclRank::give_memory(const Block& block) {
  std::lock_guard lock(memory_mutex_);
  if (job_.failed && !given_up_ended_)
    parked_.push_back({block.data, block.queue});
  else
    memory_.free(block.data, queues_[block.queue]->stream.get());
}

// Regions, synchronisation, clocks ------------------------------------------------------------------------------------

void NcclRank::open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) {
  (void)enter(at.queue, where);
  Queue& queue = *queues_[at.queue];
  queue.regions.push_back({queue.here(), cuda::Range(name, job_.rank, bytes)});
  job_.record([&](Recorder& recorder) { recorder.open_region(at.queue, name, bytes, 0, where); });
}

void NcclRank::close_region(int index) {  // in a destructor: must not throw
  Queue& queue = *queues_[index];
  const int region = job_.record([&](Recorder& recorder) { return recorder.leave_region(index); });
  const cuda::OpenRegion open = std::move(queue.regions.back());
  queue.regions.pop_back();
  try {
    job_.add_span(open.begin, queue.here(),
                  [=](Recorder& recorder, double from, double to) { recorder.region_lasted(index, region, from, to); });
  } catch (const Error& error) {
    job_.fail(error.verdict(), fmt::format("rank {}: {}", job_.rank, error.what()));
  }
}

void NcclRank::upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) {
  Queue* queue = enter(at.queue, where);
  if (queue)
    staging_.upload(slice.data(), values, slice.bytes(), queue->stream.get(),
                    [&](const cuda::Event& copied) { wait_for_gpu(*queue, copied, where); });
}

void NcclRank::copy_out(Queue& queue, const Slice& slice, void* bytes, Location where) {
  staging_.download(bytes, slice.data(), slice.bytes(), queue.stream.get(),
                    [&](const cuda::Event& copied) { wait_for_gpu(queue, copied, where); });
  if (queue.device && !job_.failed) queue.device->check_indices(where);
}

bool NcclRank::download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return false;
  job_.record([](Recorder& recorder) { recorder.read(); });
  queue->end_stretch();
  copy_out(*queue, slice, bytes, where);
  return true;
}

bool NcclRank::peek(CommunicatorKey at, const Slice& slice, void* bytes) {
  if (Queue* queue = enter(at.queue, Location::current())) copy_out(*queue, slice, bytes, slice.block()->where);
  return true;
}

/// Time at which this queue's work so far is complete. An explicit synchronisation: the host's own clock would only
/// tell when it was issued.
double NcclRank::now(int index) const {
  Queue* queue = enter(index, Location::current());
  if (!queue) return job_.now();
  queue->end_stretch();
  const cuda::Event here = queue->here();
  if (!wait_for_gpu(*queue, here, Location::current())) return job_.now();
  std::lock_guard lock(job_.recorder_mutex);
  return job_.gpu_clock->seconds(here);
}

RankLedger NcclRank::ledger() const {
  Queue& main = *queues_[0];
  if (!job_.failed) {
    main.end_stretch();
    const cuda::Event here = ended_ ? ended_ : main.here();
    wait_for_gpu(main, here, Location::current());
    job_.tell_times();
  }
  RankLedger ledger = ledger_without_seconds();
  ledger.seconds = job_.now();
  if (ended_ && ended_.done() && job_.gpu_clock) {
    std::lock_guard lock(job_.recorder_mutex);
    ledger.seconds = job_.gpu_clock->seconds(ended_);
  }
  return ledger;
}

}  // namespace lockstep::nccl
