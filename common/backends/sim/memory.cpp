// The verbs of a virtual rank that involve only its own device: arithmetic, memory, regions, synchronisation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "common/backends/sim/world.hpp"
#include "common/runtime/new_block.hpp"
#include "common/support/stats/mix.hpp"

namespace lockstep::sim {

// Arithmetic ----------------------------------------------------------------------------------------------------------

void SimRank::compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) {
  if (world_.stopped()) return;
  Queue& queue = calling(at.queue, where);
  if (races()) {
    const RaceDetector::Moment moment = this->moment(queue, 1);
    for (const Slice* slice : operation.reads)
      if (slice) races()->access(queue.component, *slice, false, where, operation.name, moment);
    for (const Slice* slice : operation.writes)
      if (slice) races()->access(queue.component, *slice, true, where, operation.name, moment);
  }
  const Machine& machine = world_.options().machine;
  // A library collective's price includes its additions and copies.
  const bool paid = queue.library.depth > 0 && !operation.matmul;
  const double seconds = (paid ? 0 : machine.seconds(operation, static_cast<double>(recorder_.scratch(0)))) + jitter();
  if (!(operation.flop >= 0 && operation.bytes >= 0 && seconds >= 0) || std::isinf(seconds))
    usage_error(fmt::format("{} would take {} s for its {} FLOP and {} bytes: a time must be finite and not negative",
                            operation.name, seconds, operation.flop, operation.bytes),
                where);
  const bool together = watched();
  if (together) sync(queue);
  if (Device* device = world_.device()) kernel(*device);
  const double begin = queue.clock;
  if (!together) {
    queue.clock += seconds;
  } else if (queue.index == 0) {
    // Other queues may lengthen this operation while it runs.
    queue.in_operation = true;
    queue.operation_end = begin + seconds;
    for (Held& held : held_) held.since = std::max(held.since, begin);
    finish_operation(queue);
    queue.in_operation = false;
    queue.clock = queue.operation_end;
  } else {
    Queue& main = *queues_[0];
    if (main.in_operation && begin < main.operation_end) main.operation_end += seconds;
    queue.clock += seconds;
  }
  const double launch = recorder_.tracing() ? machine.overhead(operation) : 0;
  recorder_.busy(queue.index, begin, queue.clock, operation.name, operation.flop, where,
                 recorder_.position(queue.index),
                 {seconds, launch, operation.flop, operation.bytes, recorder_.uses_of(operation)});
}

/// Sleeps until main's operation has ended. What unfinished collectives took of the GPU is made up for after it, while
/// they take part of that, too, unless they end.
void SimRank::finish_operation(Queue& main) {
  constexpr double kNothing = 1e-10, kMost = 0.9;  // seconds; the share that all collectives together may occupy
  while (true) {
    while (world_.time() < main.operation_end) world_.sleep_until(main, main.operation_end);
    double lost = 0, share = 0;
    for (Held& held : held_) {
      lost += held.share * std::max(0.0, main.operation_end - held.since), share += held.share;
      held.since = std::max(held.since, main.operation_end);
    }
    if (lost < kNothing) return;
    main.operation_end += lost * std::min(1.0, kMost / share);
  }
}

void SimRank::hold(const Queue& queue, int group) {
  int level = world_.groups().symmetry_level(group);
  if (level < 0) {
    const std::vector<int>& members = world_.groups().members(group);
    const auto [first, last] = std::minmax_element(members.begin(), members.end());
    level = *first == *last ? 0 : world_.options().machine.level_between(*first, *last);
  }
  held_.push_back({queue.index, library_share(world_.options().machine, level), queue.clock});
}

void SimRank::let_go(const Queue& queue) {
  const auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.queue == queue.index; });
  if (held == held_.end()) return;
  Queue& main = *queues_[0];
  if (main.in_operation) main.operation_end += held->share * std::max(0.0, queue.clock - held->since);
  held_.erase(held);
}

double SimRank::draw_jitter() {
  // Half of the work runs at once, the other half up to ten seconds late, which outlasts any concurrent work.
  const std::uint64_t x =
      mix_bits(*world_.options().perturb * 0x9e3779b97f4a7c15u +
               static_cast<std::uint64_t>(rank_) * 0xbf58476d1ce4e5b9u + ++draws_ * 0x94d049bb133111ebu);
  const double uniform = static_cast<double>(x >> 40) / static_cast<double>(1u << 24);
  return (x & 1) ? 0 : 10 * uniform;
}

// Memory --------------------------------------------------------------------------------------------------------------

Slice SimRank::allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) {
  calling(at.queue, where);
  auto block = new_block(at, count, dtype, category, *this, ++allocations_, where);
  if (!world_.options().phantom && block->bytes > 0) {
    block->data = std::aligned_alloc(64, (block->bytes + 63) / 64 * 64);
    if (!block->data) throw out_of_memory(block->bytes, category, where);
    if (world_.options().poison) std::memset(block->data, 0xff, block->bytes);
  }
  recorder_.allocated(at.queue, category, block->bytes);
  recorder_.block_made(*block, now(at.queue));
  ++live_blocks_;
  return Slice(*block.release());
}

void SimRank::release(Block& block) {
  recorder_.released(block.queue, block.category, block.bytes);
  if (recorder_.knows(block)) recorder_.block_released(block, now(block.queue));
  --live_blocks_;
  if (block.history) RaceDetector::forget(block);
  std::free(block.data);
  delete &block;
}

// Regions, synchronisation, clocks ------------------------------------------------------------------------------------

void SimRank::open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) {
  Queue& queue = calling(at.queue, where);
  const bool inside = recorder_.in_collective(at.queue);
  recorder_.open_region(at.queue, name, bytes, queue.clock, where);
  if (queue.library.depth > 0)
    ++queue.library.depth;
  else if (bytes != kPhase && world_.groups().library(at.group))
    queue.library = {1, at.group, static_cast<double>(bytes), 0};
  if (world_.options().machine.by_library && at.queue != 0 && !inside && recorder_.in_collective(at.queue))
    hold(queue, at.group);
}

void SimRank::close_region(int queue) {
  LibraryCollective& collective = queues_[queue]->library;
  const bool ended = collective.depth > 0 && --collective.depth == 0;
  if (ended && !world_.stopped() && std::uncaught_exceptions() == 0) {
    queues_[queue]->clock += world_.groups().library(collective.group)(collective.bytes, collective.sent);
    if (watched()) sync(*queues_[queue]);
  }
  recorder_.close_region(queue, queues_[queue]->clock);
  if (!held_.empty() && !recorder_.in_collective(queue)) let_go(*queues_[queue]);
}

void SimRank::upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) {
  if (world_.stopped()) return;
  Queue& queue = calling(at.queue, where);
  if (races()) races()->access(queue.component, slice, true, where, "upload", moment(queue, 0));
  if (watched()) sync(queue);
  recorder_.uploaded(slice);
  if (slice.data()) std::memcpy(slice.data(), values, slice.bytes());
}

bool SimRank::download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) {
  if (world_.stopped()) return false;
  Queue& queue = calling(at.queue, where);
  if (races()) races()->access(queue.component, slice, false, where, "read", moment(queue, 0));
  if (watched()) sync(queue);
  recorder_.read();
  if (!slice.data()) return false;
  std::memcpy(bytes, slice.data(), slice.bytes());
  return true;
}

bool SimRank::peek(CommunicatorKey, const Slice& slice, void* bytes) {
  if (!slice.data()) return false;
  std::memcpy(bytes, slice.data(), slice.bytes());
  return true;
}

}  // namespace lockstep::sim
