// Scheduler of the ranks' host code.
#include "common/backends/cuda/world.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/backends/cuda/timeout.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep::cuda {

World::World(const RunOptions& options, const Program& program, int gpu)
    : WorldBase(options, program),
      memory_(gpu),
      staging_(events_, [this](const Event& event) { await_or_throw(event); }) {
  make_ranks();
  const Event origin = events_.record(ranks_[0]->queue(0).stream.get());
  await_or_throw(origin);  // elapsed times may be asked for on other streams before this one has moved
  clock_ = std::make_unique<EventClock>(origin);
}

World::~World() {
  drop_messages();
  ranks_.clear();  // their events return to the pool
}

// Fibers --------------------------------------------------------------------------------------------------------------

std::size_t World::stack_bytes() const {
  // The driver and cuBLAS run on these stacks, and compile and load code on them, so each is as large as a thread's.
  // Untouched pages take no memory.
  constexpr std::size_t kThreadStack = 8 << 20;
  return std::max(options_.stack_bytes, kThreadStack);
}

void World::wake(Queue& queue) {
  queue.blocked.on = Blocked::On::nothing;  // so that it is not woken twice
  runnable_.push_back(&queue);
}

// Explicit synchronisation --------------------------------------------------------------------------------------------

void World::pass(const Event& event, Location where) {
  if (event.done()) return;
  if (!running_) return await_or_throw(event);
  sync_points_.push_back({running_, event});
  block(*running_, {.on = Blocked::On::sync, .where = where});
}

/// Wakes the queues whose events the GPU has passed; false if there are none.
bool World::open_doors() {
  const std::size_t before = sync_points_.size();
  for (auto point = sync_points_.begin(); point != sync_points_.end();) {
    try {
      if (!point->event.done()) {
        ++point;
        continue;
      }
    } catch (...) {
      record_failure(*point->queue);
      return false;
    }
    wake(*point->queue);
    point = sync_points_.erase(point);
  }
  return sync_points_.size() < before;
}

template <class Passed>
bool World::await(Passed passed, const std::string& what) {
  ProgressTimeout timeout(options_.timeout_seconds);
  while (!lost_ && !passed()) {
    if (timeout.rest([this] { return done_so_far(); })) continue;
    lost_ = true;
    fail(Verdict::timeout, hang() + what);
  }
  return !lost_;
}

void World::await_doors() {
  try {
    await([this] { return open_doors() || failing_; });
  } catch (...) {
    record_failure(*sync_points_.front().queue);
  }
}

void World::await_or_throw(const Event& event) {
  if (!await([&] { return event.done(); })) throw Error(Verdict::timeout, "TIMEOUT: the GPU hangs");
}

bool World::idle() const {
  bool idle = true;
  for (const auto& rank : ranks_) {
    for (const auto& queue : rank->queues()) idle = idle && queue->stream.idle();
    rank->each_endpoint([&](const Endpoint& endpoint) { idle = idle && endpoint.stream.idle(); });
  }
  return idle;
}

void* World::allocate(std::size_t bytes, Category category, cudaStream_t stream, Location where) {
  return memory_.allocate(bytes, category, stream, where, [&](const std::function<bool()>& done) {
    const std::string what =
        fmt::format("\nThe GPU is full: at {} {} bytes for {} wait until work in flight releases memory.",
                    describe(where), bytes, to_string(category));
    if (!await([&] { return done() || idle(); }, what)) throw Error(Verdict::timeout, "TIMEOUT: the GPU hangs");
  });
}

std::uint64_t World::done_so_far() {
  std::uint64_t operations = 0;
  each_queue([&](Queue& queue) { operations += queue.backlog.look(events_, queue.stream.get()); });
  return operations;
}

void World::tell_times() {
  for (auto& rank : ranks_) rank->timeline().tell(*clock_);
}

// The run -------------------------------------------------------------------------------------------------------------

void World::loop() {
  while (!failing_) {
    if (!sync_points_.empty()) open_doors();
    if (!runnable_.empty()) {
      Queue* next = runnable_.front();
      runnable_.pop_front();
      resume(*next);
    } else if (!sync_points_.empty()) {
      tell_times();  // the GPU has work, the host has none
      await_doors();
    } else if (!set_sends_aside()) {
      return;
    }
  }
}

/// Waits until the GPU has done all its work, or the run has failed.
void World::drain() {
  auto finish = [this](const Stream& stream) { await_or_throw(events_.record(stream.get())); };
  for (auto& rank : ranks_) {
    if (lost_) return;
    try {
      for (auto& queue : rank->queues()) finish(queue->stream);
      rank->each_endpoint([&](Endpoint& endpoint) { finish(endpoint.stream); });
      rank->timeline().tell(*clock_);
      rank->note_end();
      for (auto& queue : rank->queues())
        if (queue->device && !failing_) queue->device->check_indices(Location::current());
    } catch (...) {
      record_failure(rank->queue(0));
    }
  }
}

void World::release_left_memory() {
  for (auto& rank : ranks_) rank->each_endpoint([](Endpoint& endpoint) { endpoint.batches.clear(); });
  drop_messages();
}

}  // namespace lockstep::cuda
