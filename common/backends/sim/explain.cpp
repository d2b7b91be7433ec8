// Details of deadlocks and unread messages: which message lacks its other half, and which was never received.
#include "common/backends/sim/world.hpp"

namespace lockstep::sim {

/// The endpoint that a queue used last is the batch's, as long as its fiber waits for a batch.
StuckBatch World::stuck_batch(const Queue& queue) {
  Endpoint& endpoint = *queue.recent;
  const TransferBatch& batch = *endpoint.incomplete;
  const auto missing = std::find_if(batch.transfers.begin(), batch.transfers.end(),
                                    [&](const Transfer& transfer) { return unmatched(endpoint, transfer); });
  return {.number = batch.number,
          .group = endpoint.group,
          .collective = batch.collective,
          .started = batch.where,
          .transfers = batch.transfers.data(),
          .missing = missing == batch.transfers.end() ? nullptr : &*missing};
}

/// True if the other half of this transfer has not been posted.
bool World::unmatched(Endpoint& endpoint, const Transfer& transfer) {
  const Peer& peer = this->peer(endpoint, transfer.peer);
  const Pair* pair = transfer.kind == Transfer::Kind::send ? peer.out : &peer.in;
  for (const Message* message = pair->first; message; message = message->next)
    if (message->out == &transfer || message->in == &transfer) return true;
  return false;
}

std::vector<UnmatchedHalf> World::unmatched_halves() const {
  using Kind = Transfer::Kind;
  std::vector<UnmatchedHalf> all;
  for (const auto& rank : ranks_)
    rank->each_endpoint([&](const Endpoint& endpoint) {
      const int me = rank->world_rank(), group = endpoint.group, queue = endpoint.queue;
      endpoint.peers.each([&](const Peer& peer) {
        const int other = static_cast<int>(peer.world);
        for (const Message* message = peer.out->first; message; message = message->next)
          if (message->sender)
            all.push_back({Kind::send, me, other, group, queue, message->bytes,
                           message->out ? message->sender->where : message->early->sent.where});
        for (const Message* message = peer.in.first; message; message = message->next)
          if (message->receiver)
            all.push_back(
                {Kind::receive, other, me, group, queue, message->in->slice.bytes(), message->receiver->where});
      });
    });
  return all;
}

}  // namespace lockstep::sim
