// Why nobody can go on, in words: the cycle or the missing partner first, then what each rank does.
#include <fmt/format.h>

#include <map>
#include <set>

#include "common/sim/world.hpp"

namespace lockstep::sim {

namespace {

constexpr std::size_t kMostLines = 8;  // of ranks that are listed one by one

/// What a blocked queue needs: another rank's queue, or nobody who could still come.
struct Need {
  Queue* from = nullptr;
  Queue* on = nullptr;  // null: that rank's program has ended
  int rank = -1;        // whose
  std::string reason;   // "sends 40 bytes to rank 1 …"
};

std::string bytes_text(std::uint64_t bytes) { return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s"); }

}  // namespace

/// Finds what every blocked queue waits for.
class Explanation {
 public:
  explicit Explanation(World& world, int ranks) : world_(world), ranks_(ranks) {}

  std::string text() {
    std::vector<Queue*> chain = find_chain();
    std::string text = headline(chain);
    std::set<Queue*> told;
    for (std::size_t i = 0; i < chain.size() && i < kMostLines; ++i) {
      text += "\n  " + line(*chain[i]);
      told.insert(chain[i]);
    }
    return text + others(chain);
  }

 private:
  Queue* main_of(int rank) { return &world_.rank(rank).queue(0); }

  /// Of a queue that waits; what it needs first.
  Need need_of(Queue& queue) {
    Need need{&queue, nullptr, -1, ""};
    switch (queue.blocked.on) {
      case Blocked::On::batch: return need_of_batch(queue);
      case Blocked::On::closure:
        need.rank = queue.owner->world_rank();
        need.on = &queue.owner->queue(queue.blocked.queue);
        need.reason = fmt::format("waits for its closure on queue \"{}\"", world_.queue_name(queue.blocked.queue));
        return need;
      case Blocked::On::setup: return need_of_setup(queue);
      case Blocked::On::work:
        need.rank = queue.owner->world_rank();
        need.on = main_of(need.rank);
        need.reason = "has no closure to run";
        return need;
      case Blocked::On::nothing: return need;
    }
    return need;
  }

  Need need_of_batch(Queue& queue) {
    Channel& channel = *queue.blocked.channel;
    const Batch& batch = *channel.incomplete;
    Need need{&queue, nullptr, -1, ""};
    for (const Transfer& transfer : batch.transfers) {
      if (!unmatched(channel, transfer)) continue;
      const Peer& peer = world_.peer(channel, transfer.peer);
      const bool sends = transfer.kind == Transfer::Kind::send;
      need.rank = peer.world;
      RankState& other = world_.rank(peer.world);
      const bool has_queue = static_cast<std::size_t>(channel.queue) < other.queues().size();
      need.on = has_queue ? &other.queue(channel.queue) : main_of(peer.world);
      if (need.on->ended) need.on = nullptr;
      if (need.on && need.on->index != 0 && (!need.on->fiber || need.on->blocked.on == Blocked::On::work))
        need.on = main_of(peer.world)->ended ? nullptr : main_of(peer.world);
      need.reason = fmt::format("{} {} {} rank {}, which has not started the {}", sends ? "sends" : "receives",
                                bytes_text(transfer.slice.bytes()), sends ? "to" : "from", peer.world,
                                sends ? "receive" : "send");
      if (batch.where.line() != queue.blocked.where.line())
        need.reason += fmt::format(" (started at {})", describe(batch.where));
      const std::uint64_t eager = world_.options().machine.eager_bytes;
      if (sends && transfer.slice.bytes() > eager)
        need.reason += fmt::format(" (a send above {} bytes waits for its receive)", eager);
      return need;
    }
    return need;
  }

  /// True while the other side of this transfer has not been posted.
  bool unmatched(Channel& channel, const Transfer& transfer) {
    const Peer& peer = world_.peer(channel, transfer.peer);
    const Pair* pair = transfer.kind == Transfer::Kind::send ? peer.out : &peer.in;
    for (const Message* message = pair->first; message; message = message->next)
      if (message->out == &transfer || message->in == &transfer) return message->granted < 0;
    return false;
  }

  Need need_of_setup(Queue& queue) {
    Group& group = world_.group(queue.blocked.group);
    const std::uint64_t k = queue.blocked.number;
    Need need{&queue, nullptr, -1, ""};
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      if (group.setup_calls[i] > k) continue;
      need.rank = group.members[i];
      need.on = main_of(need.rank)->ended ? nullptr : main_of(need.rank);
      break;
    }
    const SetUp& setup = *group.setups[k];
    need.reason = fmt::format("set-up call {} ({}) waits for rank {}, which has not made it", k + 1,
                              setup.is_split ? "split" : fmt::format("stream(\"{}\")", setup.name), need.rank);
    return need;
  }

  /// Follows first needs until they close a cycle or end at a program that has ended. A cycle is returned from its
  /// smallest rank; a missing partner as the chain's last two links.
  std::vector<Queue*> find_chain() {
    std::map<Queue*, int> visited;  // by which walk
    for (int r = 0; r < ranks_; ++r) {
      Queue* at = main_of(r);
      if (at->ended) continue;
      std::vector<Queue*> path;
      while (at && !visited.count(at)) {
        visited[at] = r;
        path.push_back(at);
        at = need_of(*at).on;
      }
      if (!at) return {path.back()};  // it waits for somebody who has gone
      if (visited[at] != r) continue;
      auto first = std::find(path.begin(), path.end(), at);
      std::vector<Queue*> cycle(first, path.end());
      auto smallest = std::min_element(cycle.begin(), cycle.end(), [](Queue* a, Queue* b) {
        return a->owner->world_rank() < b->owner->world_rank();
      });
      std::rotate(cycle.begin(), smallest, cycle.end());
      return cycle;
    }
    return {};
  }

  std::string headline(const std::vector<Queue*>& chain) {
    if (chain.empty()) return "DEADLOCK: nobody can go on.";
    Need last = need_of(*chain.back());
    if (!last.on)
      return fmt::format("DEADLOCK: rank {} waits for rank {}, whose program has ended.",
                         chain.back()->owner->world_rank(), last.rank);
    std::string ring;
    std::size_t shown = 0;
    int previous = -1;
    std::size_t links = 0;
    std::set<int> members;
    for (Queue* queue : chain) {
      const int rank = queue->owner->world_rank();
      if (rank == previous) continue;  // main waiting for its own closure
      previous = rank;
      members.insert(rank);
      ++links;
      if (shown < kMostLines) ring += fmt::format("{} → ", rank), ++shown;
    }
    if (links > shown) ring += fmt::format("… {} more … → ", links - shown);
    const std::size_t ranks = members.size();
    return fmt::format("DEADLOCK: {} rank{} wait{} for each other in a cycle: {}{}.", ranks, ranks == 1 ? "" : "s",
                       ranks == 1 ? "s" : "", ring, chain.front()->owner->world_rank());
  }

  std::string line(Queue& queue) {
    const Need need = need_of(queue);
    std::string text = fmt::format("rank {} waits at {}", queue.owner->world_rank(), describe(queue.blocked.where));
    if (queue.index != 0) text += fmt::format(" on queue \"{}\"", world_.queue_name(queue.index));
    if (queue.current) text += fmt::format(", in the closure run at {}", describe(queue.current->where));
    if (queue.blocked.on == Blocked::On::batch) {
      const Channel& channel = *queue.blocked.channel;
      const Batch& batch = *channel.incomplete;
      text += fmt::format(", batch {}", batch.number);
      if (channel.group != 0) text += fmt::format(" of a group of {}", world_.group(channel.group).members.size());
      if (batch.collective) text += fmt::format(" in region \"{}\"", batch.collective);
    }
    return text + ": " + (need.reason.empty() ? "waits" : need.reason);
  }

  /// Everybody else, alike ones together.
  std::string others(const std::vector<Queue*>& chain) {
    std::set<const Queue*> told(chain.begin(), chain.begin() + std::min(chain.size(), kMostLines));
    std::map<std::string, std::vector<int>> alike;
    for (int r = 0; r < ranks_; ++r)
      for (auto& queue : world_.rank(r).queues()) {
        if (told.count(queue.get())) continue;
        if (queue->ended && queue->index == 0)
          alike["has ended"].push_back(r);
        else if (queue->blocked.on == Blocked::On::batch || queue->blocked.on == Blocked::On::closure ||
                 queue->blocked.on == Blocked::On::setup)
          alike[fmt::format("waits at {}", describe(queue->blocked.where))].push_back(r);
      }
    std::string text;
    for (const auto& [what, ranks] : alike) {
      text += fmt::format("\n  {} other{} {}: rank{} ", ranks.size(), ranks.size() == 1 ? "" : "s", what,
                          ranks.size() == 1 ? "" : "s");
      for (std::size_t i = 0; i < ranks.size() && i < kMostLines; ++i)
        text += fmt::format("{}{}", i ? ", " : "", ranks[i]);
      if (ranks.size() > kMostLines) text += ", …";
    }
    return text;
  }

  World& world_;
  int ranks_;
};

std::string World::explain_deadlock() { return Explanation(*this, options_.ranks).text(); }

std::string World::explain_unread() {
  std::size_t unread = 0;
  std::string first;
  for (auto& group : groups_)
    for (auto& by_rank : group->channels)
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
  if (unread == 0) return "";
  return fmt::format(
      "UNREAD: {}{}.", first,
      unread > 1 ? fmt::format(" (and {} more message{} like it)", unread - 1, unread == 2 ? "" : "s") : "");
}

}  // namespace lockstep::sim
