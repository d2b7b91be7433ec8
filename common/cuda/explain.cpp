// Why nobody can go on: what each queue waits for, as common/one_process/deadlock.hpp wants to know it; and messages
// that nobody received.
#include <fmt/format.h>

#include <algorithm>

#include "common/cuda/world.hpp"
#include "common/one_process/deadlock.hpp"

namespace lockstep::cuda {

namespace {

/// Finds what every queue waits for.
class Survey {
 public:
  Survey(World& world, int ranks) : world_(world), ranks_(ranks) {
    int count = 0;
    for (int r = 0; r < ranks_; ++r) {
      first_.push_back(count);
      count += static_cast<int>(world_.rank(r).queues().size());
    }
  }

  std::vector<StuckQueue> queues() {
    std::vector<StuckQueue> all;
    for (int r = 0; r < ranks_; ++r)
      for (auto& queue : world_.rank(r).queues()) all.push_back(look_at(*queue));
    return all;
  }

 private:
  int index_of(const Queue& queue) const { return first_[queue.owner->world_rank()] + queue.index; }
  /// −1 once its program has ended.
  int main_of(int rank) const { return world_.rank(rank).queue(0).ended ? -1 : first_[rank]; }

  StuckQueue look_at(Queue& queue) {
    StuckQueue stuck{.rank = queue.owner->world_rank(), .queue = queue.index, .ended = queue.ended};
    stuck.where = queue.blocked.where;
    if (queue.index != 0)
      stuck.inside = inside_queue(world_.queue_name(queue.index), queue.current ? &queue.current->where : nullptr);
    switch (queue.blocked.on) {
      case Blocked::On::batch: look_at_batch(queue, stuck); break;
      case Blocked::On::closure:
        stuck.on = StuckQueue::On::closure;
        stuck.needs_rank = stuck.rank;
        stuck.needs = index_of(queue.owner->queue(queue.blocked.queue));
        stuck.reason = fmt::format("waits for its closure on queue \"{}\"", world_.queue_name(queue.blocked.queue));
        break;
      case Blocked::On::setup: {
        stuck.on = StuckQueue::On::setup;
        const Groups::Missing missing = world_.groups().missing(queue.blocked.group, queue.blocked.number);
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
      case Blocked::On::door:
      case Blocked::On::nothing: break;
    }
    return stuck;
  }

  void look_at_batch(Queue& queue, StuckQueue& stuck) {
    Lane& lane = *queue.blocked.lane;
    const Batch& batch = *lane.batch(lane.issued + 1);
    stuck.on = StuckQueue::On::batch;
    stuck.inside +=
        inside_batch(batch.number, lane.group, world_.groups().members(lane.group).size(), batch.collective);
    const auto first = std::find(batch.issued.begin(), batch.issued.end(), false) - batch.issued.begin();
    const Transfer& transfer = batch.transfers[first];
    stuck.needs_rank = world_.groups().members(lane.group)[transfer.peer];
    stuck.needs = who_posts(stuck.needs_rank, lane.queue);
    stuck.reason = waits_for_transfer(transfer, stuck.needs_rank, batch.where, queue.blocked.where);
    const std::uint64_t eager = world_.options().machine.eager_bytes;
    if (transfer.kind == Transfer::Kind::send && transfer.slice.bytes() > eager)
      stuck.reason += fmt::format(" (a send above {} bytes waits for its receive)", eager);
  }

  /// The queue of `rank` that could start the other half: the one of that index, or main while that has no closure.
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
  std::vector<int> first_;  // index of a rank's main
};

}  // namespace

std::string World::deadlock() { return explain_deadlock(Survey(*this, options_.ranks).queues()); }

std::string World::unread() {
  std::size_t unread = 0;
  std::string first;
  for (auto& rank : ranks_)
    for (auto& lane : rank->lanes())
      for (const Peer& peer : lane->peers)
        for (const Posted& send : peer.sends)
          if (unread++ == 0)
            first = fmt::format("rank {} sent {} to rank {}, which ended without receiving it (sent at {})",
                                send.half.rank, bytes_text(send.bytes), rank->world_rank(), describe(send.half.where));
  return unread == 0 ? "" : unread_messages(first, unread);
}

}  // namespace lockstep::cuda
