// Collects what every queue waits for when no rank can make progress, as input of explain_deadlock.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/runtime/errors.hpp"
#include "common/runtime/fibers/deadlock.hpp"
#include "common/runtime/fibers/groups.hpp"
#include "common/runtime/fibers/queue.hpp"

namespace lockstep {

/// The batch that a stuck queue waits for, as described by its backend.
struct StuckBatch {
  std::uint64_t number = 0;
  int group = 0;
  const char* collective = nullptr;
  Location started{};
  const Transfer* transfers = nullptr;
  const Transfer* missing = nullptr;  // first transfer whose other half was not posted
};

template <class World>
class Survey {
 public:
  explicit Survey(World& world) : world_(world), ranks_(world.options().ranks) {
    for (int r = 0, count = 0; r < ranks_; ++r) {
      first_.push_back(count);
      count += static_cast<int>(world_.rank(r).queues().size());
    }
  }

  std::vector<StuckQueue> queues() {
    halves_ = world_.unmatched_halves();
    std::vector<StuckQueue> all;
    for (int r = 0; r < ranks_; ++r)
      for (auto& queue : world_.rank(r).queues()) all.push_back(look_at(*queue));
    return all;
  }

 private:
  using Queue = typename World::Queue;

  int index_of(const Queue& queue) const { return first_[queue.owner->world_rank()] + queue.index; }
  /// Index of main of `rank`; −1 once its program has ended.
  int main_of(int rank) const { return world_.rank(rank).queue(0).ended ? -1 : first_[rank]; }

  StuckQueue look_at(Queue& queue) {
    StuckQueue stuck{.rank = queue.owner->world_rank(), .queue = queue.index, .ended = queue.ended};
    const auto* closure = queue.closures.current;
    if (queue.index != 0)
      stuck.inside = inside_queue(world_.queue_name(queue.index), closure ? &closure->where : nullptr);
    const Blocked& blocked = queue.blocked;
    if (blocked.on != Blocked::On::nothing) stuck.where = blocked.where;
    switch (blocked.on) {
      case Blocked::On::batch: look_at_batch(queue, stuck); break;
      case Blocked::On::closure:
        stuck.on = StuckQueue::On::closure;
        stuck.needs_rank = stuck.rank;
        stuck.needs = index_of(queue.owner->queue(blocked.which));
        stuck.reason = fmt::format("its closure on queue \"{}\" has not ended", world_.queue_name(blocked.which));
        break;
      case Blocked::On::setup: {
        stuck.on = StuckQueue::On::setup;
        const Groups::Missing missing = world_.groups().missing(blocked.which, blocked.number);
        stuck.needs_rank = missing.world_rank;
        stuck.needs = main_of(missing.world_rank);
        stuck.reason = missing.reason;
        break;
      }
      case Blocked::On::work:
        stuck.on = StuckQueue::On::work;
        stuck.needs_rank = stuck.rank;
        stuck.needs = main_of(stuck.rank);
        stuck.reason = "has no closure to run";
        break;
      case Blocked::On::sync:
      case Blocked::On::nothing: break;
    }
    return stuck;
  }

  void look_at_batch(Queue& queue, StuckQueue& stuck) {
    const StuckBatch batch = world_.stuck_batch(queue);
    const std::vector<int>& members = world_.groups().members(batch.group);
    stuck.on = StuckQueue::On::batch;
    stuck.inside += in_batch(batch.number, batch.group, members.size(), batch.collective);
    if (!batch.missing) return;
    const Transfer& transfer = *batch.missing;
    stuck.needs_rank = members[transfer.peer];
    stuck.needs = who_posts(stuck.needs_rank, queue.index);
    const UnmatchedHalf* astray = other_half(transfer, stuck, batch.group);
    stuck.reason = waits_for_transfer(transfer, stuck.needs_rank, batch.started, queue.blocked.where, astray,
                                      astray ? world_.queue_name(astray->queue) : "");
    if (astray) return;
    stuck.reason += what_peer_does(stuck.needs_rank, batch.started);
    const auto like_it = [&](const Transfer& t) { return t.kind == transfer.kind && t.peer == transfer.peer; };
    if (const auto before = std::count_if(batch.transfers, batch.missing, like_it); before > 0)
      stuck.reason += fmt::format(" (message {} of this batch {} it)", before + 1,
                                  transfer.kind == Transfer::Kind::send ? "to" : "from");
    const std::uint64_t eager = world_.options().machine.eager_bytes;
    if (transfer.kind == Transfer::Kind::send && transfer.slice.bytes() > eager)
      stuck.reason += eager == 0
                          ? " (buffering is off in this run, so every send waits for its receive)"
                          : fmt::format(" (a send above {} bytes is not buffered: it waits for its receive)", eager);
  }

  /// A send and a receive that the peer started on the same line, and that nobody matches; else "".
  std::string what_peer_does(int peer, Location started) const {
    std::vector<std::string> does;
    for (const UnmatchedHalf& half : halves_) {
      const bool sends = half.kind == Transfer::Kind::send;
      if (half.where.line() == started.line() && (sends ? half.from : half.to) == peer)
        does.push_back(fmt::format("{} rank {}", sends ? "sends to" : "receives from", sends ? half.to : half.from));
    }
    return does.size() == 2 ? fmt::format("; there it {} and {}: is a peer wrong?", does[0], does[1]) : "";
  }

  /// The peer's half of what `stuck` waits for, if the peer has started it on another queue and waits there; else null.
  /// A peer that waits elsewhere may start the right half later, and the other one may be for another message.
  const UnmatchedHalf* other_half(const Transfer& transfer, const StuckQueue& stuck, int group) const {
    const bool sends = transfer.kind == Transfer::Kind::send;
    const int from = sends ? stuck.rank : stuck.needs_rank, to = sends ? stuck.needs_rank : stuck.rank;
    const auto half = std::find_if(halves_.begin(), halves_.end(), [&](const UnmatchedHalf& each) {
      return each.kind != transfer.kind && each.from == from && each.to == to && each.group == group &&
             each.queue != stuck.queue && each.bytes == transfer.slice.bytes() && holds_main(stuck.needs_rank, each);
    });
    return half == halves_.end() ? nullptr : &*half;
  }

  /// True if the main of `rank` waits on the queue of `half`, or has ended.
  bool holds_main(int rank, const UnmatchedHalf& half) const {
    const Queue& main = world_.rank(rank).queue(0);
    return main.ended || half.queue == (main.blocked.on == Blocked::On::closure ? main.blocked.which : 0);
  }

  /// The queue of `rank` that could start the other half: queue `index`, or main if that queue has no closure.
  int who_posts(int rank, int index) const {
    const auto& queues = world_.rank(rank).queues();
    if (static_cast<std::size_t>(index) >= queues.size()) return main_of(rank);
    const Queue& queue = *queues[index];
    if (queue.ended) return -1;
    if (index != 0 && (!queue.fiber || queue.blocked.on == Blocked::On::work)) return main_of(rank);
    return index_of(queue);
  }

  World& world_;
  int ranks_;
  std::vector<int> first_;  // by rank: index of its main
  std::vector<UnmatchedHalf> halves_;
};

}  // namespace lockstep
