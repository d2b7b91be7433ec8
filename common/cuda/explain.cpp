// What only this backend knows when nobody can go on, or somebody was not listened to: which transfer is not with the
// GPU, and which message was never received.
#include <algorithm>

#include "common/cuda/world.hpp"

namespace lockstep::cuda {

StuckBatch World::stuck_batch(const Queue& queue) {
  Lane& lane = queue.owner->end(queue.blocked.which, queue.index);
  const Batch& batch = *lane.batch(lane.issued + 1);
  const auto missing = std::find(batch.issued.begin(), batch.issued.end(), false) - batch.issued.begin();
  return {.number = batch.number,
          .group = lane.group,
          .collective = batch.collective,
          .started = batch.where,
          .missing = &batch.transfers[missing]};
}

std::vector<UnreadMessage> World::unread() const {
  std::vector<UnreadMessage> all;
  for (const auto& rank : ranks_)
    rank->each_end([&](const Lane& lane) {
      for (const Peer& peer : lane.peers)
        for (const Posted& send : peer.sends)
          all.push_back({send.half.rank, rank->world_rank(), send.bytes, send.half.where});
    });
  return all;
}

}  // namespace lockstep::cuda
