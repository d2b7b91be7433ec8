// The scheduler of the ranks' host code.
#include "common/cuda/world.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/cuda/status.hpp"

namespace lockstep::cuda {

World::World(const RunOptions& options, const Program& program, int gpu)
    : options_(options),
      program_(program),
      memory_(gpu),
      staging_(events_),
      groups_(options.ranks),
      values_(options.ranks) {
  for (int r = 0; r < options.ranks; ++r) ranks_.push_back(std::make_unique<RankState>(*this, r));
  join_new_groups();
  for (auto& rank : ranks_) rank->add_queues_up_to(0);
  clock_ = std::make_unique<EventClock>(events_.record(ranks_[0]->queue(0).stream.get()));
}

World::~World() { drop_messages(); }

void World::join_new_groups() {
  for (; joined_groups_ < groups_.count(); ++joined_groups_) {
    const std::vector<int>& members = groups_.members(joined_groups_);
    for (std::size_t i = 0; i < members.size(); ++i)
      ranks_[members[i]]->join_group(joined_groups_, static_cast<int>(i));
  }
}

int World::queue_id(std::string_view name) {
  auto known = std::find(queue_names_.begin(), queue_names_.end(), name);
  if (known == queue_names_.end()) known = queue_names_.insert(known, std::string(name));
  return static_cast<int>(known - queue_names_.begin());
}

// Fibers --------------------------------------------------------------------------------------------------------------

void World::start_fiber(Queue& queue, std::function<void()> body) {
  // The driver and cuBLAS run on these stacks, and compile and load code on them: as much as a thread has. What is not
  // touched takes no memory.
  constexpr std::size_t kThreadStack = 8 << 20;
  queue.fiber = make_fiber(std::max(options_.stack_bytes, kThreadStack), queue.owner->world_rank(),
                           [this, &queue, body = std::move(body)] { body_of(queue, body); });
  runnable_.push_back(&queue);
}

void World::body_of(Queue& queue, const std::function<void()>& body) {
  try {
    body();
  } catch (const Unwind&) {
  } catch (...) {
    record_failure(queue);
  }
  queue.ended = true;
}

bool World::stopped() const {
  // A destructor's verb during an exception does nothing: it could wait for ever, or throw a second one.
  if (std::uncaught_exceptions() > 0) return true;
  if (failing_) throw Unwind{};
  return false;
}

void World::block(Queue& queue, Blocked why) {
  queue.blocked = why;
  queue.fiber->suspend();
  queue.blocked = {};
  if (failing_) throw Unwind{};
}

void World::wake(Queue& queue) {
  queue.blocked.on = Blocked::On::nothing;  // so that nobody wakes it twice
  runnable_.push_back(&queue);
}

void World::resume(Queue& queue) {
  running_ = &queue;
  queue.fiber->resume();
  running_ = nullptr;
}

void World::record_failure(const Queue& queue) {
  if (failing_) return;  // the first failure is the one to explain
  failing_ = true;
  failure_ = current_failure(queue.owner->world_rank(), queue_names_[queue.index],
                             queue.current ? &queue.current->where : nullptr);
}

// Doors ---------------------------------------------------------------------------------------------------------------

void World::pass(const Event& event) {
  if (event.done()) return;
  if (!running_) return event.synchronize();
  doors_.push_back({running_, event});
  block(*running_, {.on = Blocked::On::door});
}

/// Wakes those whose events the GPU has passed; with `wait`, at least one.
bool World::open_doors(bool wait) {
  const std::size_t before = doors_.size();
  for (auto door = doors_.begin(); door != doors_.end();) {
    try {
      if (wait && door == doors_.begin()) door->event.synchronize();
      if (!door->event.done()) {
        ++door;
        continue;
      }
    } catch (...) {
      record_failure(*door->queue);
      return false;
    }
    wake(*door->queue);
    door = doors_.erase(door);
  }
  return doors_.size() < before;
}

void World::tell_times() {
  for (auto& rank : ranks_) rank->timeline().tell(*clock_);
}

// The run -------------------------------------------------------------------------------------------------------------

void World::loop() {
  while (!failing_) {
    if (!doors_.empty()) open_doors(false);
    if (!runnable_.empty()) {
      Queue* next = runnable_.front();
      runnable_.pop_front();
      resume(*next);
    } else if (!doors_.empty()) {
      tell_times();  // the GPU has work, the host has none
      open_doors(true);
    } else if (!set_sends_aside()) {
      return;
    }
  }
}

Outcome World::run() {
  for (auto& rank : ranks_) {
    RankState* state = rank.get();
    start_fiber(state->queue(0), [this, state] { state->play(program_, values_[state->world_rank()]); });
  }
  loop();
  if (!failing_) judge_end();
  finish_gpu();
  unwind_all();
  Outcome outcome;
  fill(outcome);
  drop_messages();
  return outcome;
}

void World::judge_end() {
  const bool all_ended = std::all_of(ranks_.begin(), ranks_.end(), [](auto& rank) { return rank->queue(0).ended; });
  if (!all_ended)
    failure_ = {Verdict::deadlock, deadlock()};
  else if (std::string message = unread(); !message.empty())
    failure_ = {Verdict::unread, message};
}

/// Everything given to the GPU is done, or it has failed.
void World::finish_gpu() {
  for (auto& rank : ranks_) {
    try {
      for (auto& queue : rank->queues()) queue->stream.synchronize();
      for (auto& lane : rank->lanes()) lane->stream.synchronize();
      rank->timeline().tell(*clock_);
      rank->note_end();
      for (auto& queue : rank->queues())
        if (queue->device && !failing_) queue->device->check_indices(Location::current());
    } catch (...) {
      record_failure(rank->queue(0));
    }
  }
}

void World::unwind_all() {
  failing_ = true;
  for (auto& rank : ranks_)
    for (auto& queue : rank->queues())
      if (queue->fiber && queue->fiber->started() && !queue->ended) resume(*queue);
  for (auto& rank : ranks_) {  // what a failed run has left in batches and closures holds memory
    for (auto& lane : rank->lanes()) lane->batches.clear();
    for (auto& queue : rank->queues()) queue->closures.clear();
  }
}

void World::fill(Outcome& outcome) {
  outcome.messages = messages_;
  outcome.trace.queues = queue_names_;
  for (auto& rank : ranks_) {
    outcome.ledgers.push_back(rank->ledger());
    outcome.seconds = std::max(outcome.seconds, outcome.ledgers.back().seconds);
    auto& events = rank->recorder().trace();
    outcome.trace.events.insert(outcome.trace.events.end(), std::make_move_iterator(events.begin()),
                                std::make_move_iterator(events.end()));
    if (failure_.verdict == Verdict::pass && rank->live_blocks_ > 0)
      failure_ = outliving_slices(rank->world_rank(), rank->live_blocks_);
  }
  outcome.wall_seconds = outcome.seconds;
  outcome.verdict = failure_.verdict;
  outcome.message = failure_.message;
  outcome.failed_rank = failure_.rank;
  outcome.values = std::move(values_);
}

void World::drop_fibers() {
  for (auto& rank : ranks_)
    for (auto& queue : rank->queues()) queue->fiber.reset();
}

bool World::has_outliving_slices() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](auto& rank) { return rank->live_blocks_ > 0; });
}

}  // namespace lockstep::cuda
