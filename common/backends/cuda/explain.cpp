// Details that only this backend knows about a deadlock, an unread message or a hanging GPU: which transfer the GPU
// does not have, which message was never received, and what hangs.
#include <fmt/format.h>

#include <algorithm>

#include "common/backends/cuda/world.hpp"
#include "common/runtime/processes/wait_table.hpp"

namespace lockstep::cuda {

StuckBatch World::stuck_batch(const Queue& queue) {
  Endpoint& endpoint = queue.owner->endpoint_at(queue.blocked.which, queue.index);
  const TransferBatch& batch = *endpoint.batch(endpoint.issued + 1);
  const auto missing = std::find(batch.issued.begin(), batch.issued.end(), false) - batch.issued.begin();
  return {.number = batch.number,
          .group = endpoint.group,
          .collective = batch.collective,
          .started = batch.where,
          .transfers = batch.transfers.data(),
          .missing = &batch.transfers[missing]};
}

/// Describes what every rank waits for, and which of its work the GPU has not done.
std::string World::hang() const {
  std::vector<processes::Row> rows;
  for (const auto& rank : ranks_) {
    processes::Row row;
    for (const auto& queue : rank->queues()) {
      const std::string left = queue->backlog.words();
      const bool waits = queue->blocked.on != Blocked::On::nothing && queue->blocked.on != Blocked::On::work;
      if (!waits && left.empty()) continue;
      if (!row.words.empty()) row.words += "; ";
      row.words += fmt::format("queue \"{}\"", queue_name(queue->index));
      if (waits) row.words += fmt::format(" waits at {}", describe(queue->blocked.where));
      if (queue->blocked.on == Blocked::On::sync) row.words += " for the GPU";
      if (!left.empty()) row.words += fmt::format("{} the GPU is not done with {}", waits ? ", and" : ":", left);
    }
    if (row.words.empty()) row.words = "has nothing on the GPU";
    rows.push_back(row);
  }
  return processes::wait_table(fmt::format("TIMEOUT: the GPU has done nothing for {:g} s", options_.timeout_seconds),
                               rows);
}

std::vector<UnmatchedHalf> World::unmatched_halves() const {
  using Kind = Transfer::Kind;
  std::vector<UnmatchedHalf> all;
  for (const auto& rank : ranks_)
    rank->each_endpoint([&](const Endpoint& endpoint) {
      const int me = rank->world_rank(), group = endpoint.group, queue = endpoint.queue;
      for (const Peer& peer : endpoint.peers) {
        for (const Posted& send : peer.sends)
          all.push_back({Kind::send, send.half.rank, me, group, queue, send.bytes, send.half.where});
        for (const Posted& receive : peer.receives)
          all.push_back({Kind::receive, peer.world, me, group, queue, receive.bytes, receive.half.where});
      }
    });
  return all;
}

}  // namespace lockstep::cuda
