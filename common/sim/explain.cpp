// Why nobody can go on: what each queue waits for, as common/one_process/deadlock.hpp wants to know it; and messages
// that nobody received.
#include <fmt/format.h>

#include "common/one_process/deadlock.hpp"
#include "common/sim/world.hpp"

namespace lockstep::sim {

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
      case Blocked::On::nothing: break;
    }
    return stuck;
  }

  void look_at_batch(Queue& queue, StuckQueue& stuck) {
    Channel& channel = *queue.blocked.channel;
    const Batch& batch = *channel.incomplete;
    stuck.on = StuckQueue::On::batch;
    stuck.inside +=
        inside_batch(batch.number, channel.group, world_.groups().members(channel.group).size(), batch.collective);
    for (const Transfer& transfer : batch.transfers) {
      if (!unmatched(channel, transfer)) continue;
      const Peer& peer = world_.peer(channel, transfer.peer);
      stuck.needs_rank = peer.world;
      stuck.needs = who_posts(peer.world, channel.queue);
      stuck.reason = waits_for_transfer(transfer, peer.world, batch.where, queue.blocked.where);
      const std::uint64_t eager = world_.options().machine.eager_bytes;
      if (transfer.kind == Transfer::Kind::send && transfer.slice.bytes() > eager)
        stuck.reason += fmt::format(" (a send above {} bytes waits for its receive)", eager);
      return;
    }
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

  /// True while the other side of this transfer has not been posted.
  bool unmatched(Channel& channel, const Transfer& transfer) {
    const Peer& peer = world_.peer(channel, transfer.peer);
    const Pair* pair = transfer.kind == Transfer::Kind::send ? peer.out : &peer.in;
    for (const Message* message = pair->first; message; message = message->next)
      if (message->out == &transfer || message->in == &transfer) return message->granted < 0;
    return false;
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
  for (auto& group : channels_)
    for (auto& by_rank : *group)
      for (auto& channel : by_rank) {
        if (!channel) continue;
        for (auto& peer : channel->peers) {
          if (!peer || !peer->out) continue;
          for (const Message* message = peer->out->first; message; message = message->next) {
            if (!message->sender) continue;
            if (unread++ == 0)
              first = fmt::format("rank {} sent {} to rank {}, which ended without receiving it (sent at {})",
                                  channel->owner->world_rank(), bytes_text(message->bytes), peer->world,
                                  describe(message->where));
          }
        }
      }
  return unread == 0 ? "" : unread_messages(first, unread);
}

}  // namespace lockstep::sim
