// The verbs.
#include "common/backends/nccl/rank.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/devices/cuda/status.hpp"

namespace lockstep::nccl {

// Who calls ---------------------------------------------------------------------------------------------------------

int NcclRank::running_queue() const {
  const std::thread::id thread = std::this_thread::get_id();
  if (thread == main_thread_) return inline_queue_;
  for (int queue = 1; queue < queue_count_; ++queue)
    if (queues_[queue]->thread() == thread) return queue;
  return -1;
}

Queue* NcclRank::enter(int index, Location where) const {
  // A destructor's verb during an exception does nothing: it could wait for ever, or throw a second one.
  if (std::uncaught_exceptions() > 0) return nullptr;
  if (job_->failed.load(std::memory_order_acquire)) throw Unwind{};
  const int running = running_queue();
  if (running == index) {
    queues_[index]->set_doing({.kind = Doing::Kind::own_code, .where = where});
    return queues_[index].get();
  }
  if (index != 0) usage_error(queue_outside_closure(queues_[index]->name), where);
  if (running > 0) usage_error(main_inside_closure(queues_[running]->name), where);
  usage_error("a Rank was used by a thread that is none of its queues", where);
}

Group& NcclRank::group(int index, Location where) {
  if (index < 0 || groups_[index]->rank < 0) usage_error(not_in_group(job_->rank), where);
  return *groups_[index];
}

Rank NcclRank::handle(int index, int queue) {
  const Group& of = group(index);
  return Rank(*this, index, queue, of.rank, static_cast<int>(of.members.size()));
}

Endpoint& NcclRank::endpoint(int group, int queue) { return *endpoints_[queue][group]; }

// Waiting -----------------------------------------------------------------------------------------------------------

bool NcclRank::wait_until(Queue& queue, const Doing& doing, const std::function<bool()>& done) const {
  using namespace std::chrono_literals;
  constexpr int kSpins = 200;
  bool found = done();
  if (found) return true;
  queue.set_doing(doing);
  job_->working.fetch_sub(1);
  for (int looks = 0; !found && !job_->failed.load(std::memory_order_relaxed); ++looks) {
    const std::uint64_t seen = job_->control.news();
    found = done();
    if (found) break;
    if (looks < kSpins)
      std::this_thread::yield();
    else
      job_->control.wait_for_news(seen, 100us);
  }
  job_->working.fetch_add(1);
  queue.set_doing({.kind = Doing::Kind::own_code, .where = doing.where});
  if (!found && std::uncaught_exceptions() == 0) throw Unwind{};
  return found;
}

bool NcclRank::wait_for_gpu(Queue& queue, const cuda::Event& event, Location where) const {
  return wait_until(queue, {.kind = Doing::Kind::waits_for_gpu, .where = where}, [&] { return event.done(); });
}

void NcclRank::advance_endpoints() {
  for (Endpoint* each : all_endpoints_) each->advance();
}

// Times: spans between events, told to the ledgers when the GPU has passed them ---------------------------------------

void NcclRank::end_stretch(Queue& queue) const {
  if (!queue.stretch) return;
  const cuda::Event end = job_->events.record(queue.stream.get());
  job_->add_span(queue.stretch, end,
                 [index = queue.index, flop = queue.stretch_flop](Recorder& recorder, double from, double to) {
                   recorder.busy(index, from, to, "arithmetic", flop, Location{}, 0);
                 });
  {
    std::lock_guard lock(queue.backlog_mutex);
    queue.backlog.close(end);
  }
  queue.stretch = {};
  queue.stretch_flop = 0;
}

template <class F>
void NcclRank::waits(Queue& queue, const Ticket& ticket, Location where, F enqueue) {
  end_stretch(queue);
  const std::uint64_t position =
      job_->record([&](Recorder& recorder) { return recorder.waits_for(queue.index, ticket); });
  const cuda::Event before = job_->events.record(queue.stream.get());
  enqueue();
  const cuda::Event after = job_->events.record(queue.stream.get());
  job_->add_span(before, after, [index = queue.index, where, position](Recorder& recorder, double from, double to) {
    recorder.waited(index, from, to, where, position);
  });
}

// Messages ----------------------------------------------------------------------------------------------------------

Ticket NcclRank::start(CommunicatorKey at, std::span<const Transfer> transfers, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return {};
  const std::vector<int>& members = groups_[at.group]->members;
  const char* region =
      job_->record([&](Recorder& recorder) { return recorder.batch_started(at.queue, at.group, members, transfers); });
  std::lock_guard gate(job_->gate);
  const std::uint64_t number = endpoint(at.group, at.queue).start(transfers, where, region, queue->stream.get());
  return {Ticket::Kind::batch, at.group, at.queue, number};
}

void NcclRank::wait(CommunicatorKey at, Ticket ticket, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return;
  if (ticket.kind == Ticket::Kind::batch)
    wait_for_batch(*queue, ticket, where);
  else
    wait_for_closure(*queue, ticket, where);
}

void NcclRank::wait_for_batch(Queue& queue, Ticket ticket, Location where) {
  if (ticket.queue != queue.index) usage_error(waited_on_wrong_queue(queues_[ticket.queue]->name, queue.name), where);
  Endpoint* waited = nullptr;
  {
    std::lock_guard gate(job_->gate);
    waited = &endpoint(ticket.group, ticket.queue);
  }
  if (ticket.number > waited->started()) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= waited->waited()) return;
  auto launched = [&] {
    std::lock_guard gate(job_->gate);
    advance_endpoints();
    return waited->launched() >= ticket.number;
  };
  if (!wait_until(queue, {.kind = Doing::Kind::waits_for_batch, .where = where, .endpoint = waited}, launched)) return;
  waits(queue, ticket, where, [&] {
    std::lock_guard gate(job_->gate);
    waited->wait(ticket.number, queue.stream);
  });
}

// Closures ----------------------------------------------------------------------------------------------------------

Ticket NcclRank::run(CommunicatorKey, Rank as, std::function<void(Rank)> f, Location where) {
  Queue* main = enter(0, where);
  if (!main) return {};
  const cuda::Event issued = job_->events.record(main->stream.get());
  job_->record([&](Recorder& recorder) { recorder.closure_issued(as.queue()); });
  const std::uint64_t number = queues_[as.queue()]->push(std::move(f), as, where, issued);
  return {Ticket::Kind::closure, as.group(), as.queue(), number};
}

void NcclRank::wait_for_closure(Queue& main, Ticket ticket, Location where) {
  if (main.index != 0) usage_error(kClosureTicketOnMain, where);
  if (ticket.queue >= queue_count_) usage_error(kTicketOfAnotherRank, where);
  Queue& queue = *queues_[ticket.queue];
  if (ticket.number > queue.pushed()) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= queue.released()) return;
  main.set_doing({.kind = Doing::Kind::waits_for_closure, .where = where, .queue = ticket.queue});
  job_->working.fetch_sub(1);
  const bool ended = queue.wait_for(ticket.number);
  job_->working.fetch_add(1);
  main.set_doing({.kind = Doing::Kind::own_code, .where = where});
  if (!ended) {
    if (std::uncaught_exceptions() == 0) throw Unwind{};
    return;
  }
  waits(main, ticket, where, [&] { main.stream.wait(queue.end_of(ticket.number)); });
  queue.release(ticket.number);  // only now: memory that goes is free after the wait
}

// Arithmetic --------------------------------------------------------------------------------------------------------

void NcclRank::compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return;
  if (!queue->device) queue->device = make_cuda_device(queue->stream.get(), job_->options.tf32);
  // One span for all operations between two waits costs less than one each; a trace shows each.
  if (!queue->stretch) queue->stretch = job_->events.record(queue->stream.get());
  const cuda::OperationRange named(operation.name);
  kernel(*queue->device);
  {
    std::lock_guard lock(queue->backlog_mutex);
    queue->backlog.add(operation.name, where, job_->events, queue->stream.get());
  }
  queue->stretch_flop += operation.flop;
  job_->note_activity();
  if (!job_->options.trace) return;
  const cuda::Event end = job_->events.record(queue->stream.get());
  const std::uint64_t position = job_->record([&](Recorder& recorder) { return recorder.position(at.queue); });
  job_->add_span(
      std::exchange(queue->stretch, {}), end,
      [index = at.queue, name = operation.name, flop = std::exchange(queue->stretch_flop, 0), where, position](
          Recorder& recorder, double from, double to) { recorder.busy(index, from, to, name, flop, where, position); });
}

// Memory ------------------------------------------------------------------------------------------------------------

bool NcclRank::gpu_is_idle() {
  for (int queue = 0; queue < queue_count_; ++queue)
    if (!queues_[queue]->stream.idle()) return false;
  std::lock_guard gate(job_->gate);
  return std::all_of(all_endpoints_.begin(), all_endpoints_.end(),
                     [](const Endpoint* each) { return each->communicator()->stream.idle(); });
}

void* NcclRank::memory_for(Queue& queue, std::size_t bytes, Category category, Location where) {
  return memory_.allocate(bytes, category, queue.stream.get(), [&](const std::function<bool()>& done) {
    const Doing waits{.kind = Doing::Kind::waits_for_memory, .where = where, .bytes = bytes, .category = category};
    (void)wait_until(queue, waits, [&] { return done() || gpu_is_idle(); });
  });
}

Slice NcclRank::allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) {
  (void)enter(at.queue, where);
  const std::size_t bytes = count * bytes_of(dtype);
  const cudaStream_t stream = queues_[at.queue]->stream.get();
  auto block = std::make_unique<Block>();
  block->threads = true;
  block->category = category;
  block->dtype = dtype;
  block->queue = at.queue;
  block->data = bytes > 0 ? memory_for(*queues_[at.queue], bytes, category, where) : nullptr;
  block->bytes = bytes;
  block->owner = this;
  block->where = where;
  {
    std::lock_guard lock(memory_mutex_);
    block->id = ++blocks_;
  }
  ++live_blocks_;
  if (block->data && job_->options.poison)
    cuda::check(cudaMemsetAsync(block->data, 0xff, bytes, stream), "cudaMemsetAsync");
  job_->record([&](Recorder& recorder) { recorder.allocated(at.queue, category, bytes); });
  return Slice(*block.release());
}

/// By the contract, what other queues did with it is done before its own queue goes on: its stream's order is enough.
void NcclRank::release(Block& block) {
  job_->record([&](Recorder& recorder) { recorder.released(block.queue, block.category, block.bytes); });
  --live_blocks_;
  if (job_->failed) {
    std::lock_guard lock(memory_mutex_);
    parked_.push_back(&block);
    return;
  }
  memory_.free(block.data, queues_[block.queue]->stream.get());
  delete &block;
}

// Regions, synchronisation, clocks ------------------------------------------------------------------------------------

void NcclRank::open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) {
  (void)enter(at.queue, where);
  Queue& queue = *queues_[at.queue];
  queue.regions.push_back({job_->events.record(queue.stream.get()), cuda::Range(name, job_->rank, bytes)});
  job_->record([&](Recorder& recorder) { recorder.open_region(at.queue, name, bytes, 0); });
}

void NcclRank::close_region(int index) {  // in a destructor: it does not throw
  Queue& queue = *queues_[index];
  const int region = job_->record([&](Recorder& recorder) { return recorder.leave_region(index); });
  const cuda::OpenRegion open = std::move(queue.regions.back());
  queue.regions.pop_back();
  try {
    job_->add_span(
        open.begin, job_->events.record(queue.stream.get()),
        [=](Recorder& recorder, double from, double to) { recorder.region_lasted(index, region, from, to); });
  } catch (const Error& error) {
    job_->fail(error.verdict(), fmt::format("rank {}: {}", job_->rank, error.what()));
  }
}

void NcclRank::upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) {
  Queue* queue = enter(at.queue, where);
  if (queue) staging_.upload(slice.data(), values, slice.bytes(), queue->stream.get());
}

void NcclRank::copy_out(Queue& queue, const Slice& slice, void* bytes, Location where) {
  staging_.download(bytes, slice.data(), slice.bytes(), queue.stream.get(),
                    [&](const cuda::Event& copied) { wait_for_gpu(queue, copied, where); });
  if (queue.device && !job_->failed) queue.device->check_indices(where);
}

bool NcclRank::download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return false;
  job_->record([](Recorder& recorder) { recorder.read(); });
  end_stretch(*queue);
  copy_out(*queue, slice, bytes, where);
  return true;
}

bool NcclRank::peek(CommunicatorKey at, const Slice& slice, void* bytes) {
  if (Queue* queue = enter(at.queue, Location::current())) copy_out(*queue, slice, bytes, slice.block()->where);
  return true;
}

/// When this queue's work so far is done: an explicit synchronisation, since the host's own clock would only say when
/// it was given.
double NcclRank::now(int index) const {
  Queue* queue = enter(index, Location::current());
  if (!queue) return job_->now();
  end_stretch(*queue);
  const cuda::Event here = job_->events.record(queue->stream.get());
  if (!wait_for_gpu(*queue, here, Location::current())) return job_->now();
  std::lock_guard lock(job_->recorder_mutex);
  return job_->gpu_clock->seconds(here);
}

RankLedger NcclRank::ledger() const {
  Queue& main = *queues_[0];
  if (!job_->failed) {
    end_stretch(main);
    const cuda::Event here = ended_ ? ended_ : job_->events.record(main.stream.get());
    wait_for_gpu(main, here, Location::current());
    job_->tell_times();
  }
  RankLedger ledger = job_->record([](Recorder& recorder) { return recorder.ledger(); });
  std::lock_guard gate(job_->gate);
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
  ledger.seconds = job_->now();
  if (ended_ && ended_.done() && job_->gpu_clock) {
    std::lock_guard lock(job_->recorder_mutex);
    ledger.seconds = job_->gpu_clock->seconds(ended_);
  }
  return ledger;
}

std::vector<std::string> NcclRank::queue_names() const {
  std::vector<std::string> names;
  for (int queue = 0; queue < queue_count_; ++queue) names.push_back(queues_[queue]->name);
  return names;
}

}  // namespace lockstep::nccl
