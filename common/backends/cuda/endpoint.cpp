// Matching of messages: begins batches and pairs transfers with their other halves. Each message is a copy on the
// receiver's endpoint.
#include <algorithm>

#include "common/backends/cuda/world.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep::cuda {

Peer& World::peer(Endpoint& endpoint, int rank) {
  const std::vector<int>& members = groups_.members(endpoint.group);
  if (endpoint.peers.empty()) endpoint.peers.resize(members.size());
  Peer& peer = endpoint.peers[rank];
  peer.world = members[rank];
  return peer;
}

void World::post(TransferBatch* batch) {
  if (batch->endpoint->issued + 1 == batch->number) beginning_.push_back(batch);
  begin_all();
  if (failing_) throw Unwind{};
}

/// Begins all batches whose turn has come, including those whose turn comes as a result. A loop, not a recursion, since
/// there may be thousands.
void World::begin_all() {
  while (!beginning_.empty() && !failing_) {
    TransferBatch* next = beginning_.front();
    beginning_.pop_front();
    try {
      begin(*next);
    } catch (...) {
      record_failure(next->endpoint->owner->queue(next->endpoint->queue));
    }
  }
}

void World::begin(TransferBatch& batch) {
  Endpoint& endpoint = *batch.endpoint;
  const bool receives = std::any_of(batch.transfers.begin(), batch.transfers.end(),
                                    [](const Transfer& t) { return t.kind == Transfer::Kind::receive; });
  if (receives || !batch.follows_wait) endpoint.stream.wait(batch.posted);
  if (batch.follows_wait) {
    batch.begin = batch.posted;
  } else {
    // The stream's order covers what the batch before received; what it sent is copied by other endpoints.
    if (const TransferBatch* before = endpoint.batch(batch.number - 1))
      for (const Event& sent : before->sent) endpoint.stream.wait(sent);
    batch.begin = events_.record(endpoint.stream.get());
  }
  const int me = endpoint.owner->world_rank();
  for (std::size_t i = 0; i < batch.transfers.size(); ++i) {
    const Transfer& transfer = batch.transfers[i];
    Peer& peer = this->peer(endpoint, transfer.peer);
    const std::size_t bytes = transfer.slice.bytes();
    Posted mine{.batch = &batch,
                .index = i,
                .half = {me, transfer.slice.size(), transfer.slice.dtype(), batch.where, batch.collective},
                .bytes = bytes,
                .begin = batch.begin};
    if (transfer.kind == Transfer::Kind::send) {
      ++messages_;
      ++peer.traffic.messages_sent;
      peer.traffic.bytes_sent += bytes;
      Endpoint& other = ranks_[peer.world]->endpoint_at(endpoint.group, endpoint.queue);
      Peer& self = this->peer(other, endpoint.rank);
      if (self.receives.empty()) {
        self.sends.push_back(std::move(mine));
      } else {
        Posted receive = std::move(self.receives.front());
        self.receives.pop_front();
        meet(std::move(mine), std::move(receive), other);
      }
    } else {
      ++peer.traffic.messages_received;
      peer.traffic.bytes_received += bytes;
      if (peer.sends.empty()) {
        peer.receives.push_back(std::move(mine));
      } else {
        Posted send = std::move(peer.sends.front());
        peer.sends.pop_front();
        meet(std::move(send), std::move(mine), endpoint);
      }
    }
  }
}

/// Issues the copy to the GPU, ordered after the work that the sender's and the receiver's queue had done when they
/// started it.
void World::meet(Posted send, Posted receive, Endpoint& receiver) {
  if (send.half.elements != receive.half.elements || send.half.dtype != receive.half.dtype ||
      !regions_agree(send.half.region, receive.half.region)) {
    if (send.aside) memory_.free(send.aside, receiver.stream.get());
    const auto regions = [&](const Half& half) {
      return ranks_[half.rank]->recorder().regions_of(receiver.queue, half.region, half.where);
    };
    mismatch(send.half, regions(send.half), receive.half, regions(receive.half),
             which_way(receive.batch->transfers[receive.index].peer, receiver.rank,
                       static_cast<int>(groups_.members(receiver.group).size())));
  }
  const cudaStream_t stream = receiver.stream.get();
  receiver.stream.wait(send.begin);
  void* to = receive.batch->transfers[receive.index].slice.data();
  const void* from = send.batch ? send.batch->transfers[send.index].slice.data() : send.aside;
  if (send.bytes > 0)
    check(cudaMemcpyAsync(to, from, send.bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync between ranks");
  if (send.aside) memory_.free(send.aside, stream);
  const Event done = events_.record(stream);
  receive.batch->received = done;
  issued(*receive.batch, receive.index);
  if (!send.batch) return;
  send.batch->sent.push_back(done);
  issued(*send.batch, send.index);
}

void World::issued(TransferBatch& batch, std::size_t index) {
  batch.issued[index] = true;
  if (--batch.pending > 0) return;
  Endpoint& endpoint = *batch.endpoint;
  endpoint.issued = batch.number;
  std::vector<Event> ends = batch.sent;
  if (batch.received) ends.push_back(batch.received);
  std::size_t bytes = 0;
  for (const Transfer& transfer : batch.transfers) bytes += transfer.slice.bytes();
  CudaRank& rank = *endpoint.owner;
  rank.span(batch.begin, std::move(ends),
            [&rank, queue = endpoint.queue, group = endpoint.group, count = batch.transfers.size(), bytes,
             where = batch.where, region = batch.collective](double begin, double end) {
              rank.recorder().transferred(queue, group, begin, end, count, bytes, where, region);
            });
  if (TransferBatch* next = endpoint.batch(batch.number + 1)) beginning_.push_back(next);
  if (endpoint.waiter && endpoint.issued >= endpoint.waiter_number) wake(*std::exchange(endpoint.waiter, nullptr));
}

// Sends that complete before they are received ------------------------------------------------------------------------

/// Copies sends of at most eager_bytes, which do not wait for their receive, to the runtime's own memory when no rank
/// can make progress. Only then, since an extra copy takes time.
bool World::set_sends_aside() {
  std::vector<Posted*> sends;
  each_peer([&](Endpoint&, Peer& peer) {
    for (Posted& send : peer.sends)
      if (send.batch && send.bytes <= options_.machine.eager_bytes) sends.push_back(&send);
  });
  for (Posted* send : sends) {
    Queue& queue = send->batch->endpoint->owner->queue(send->batch->endpoint->queue);
    try {
      buffer_eagerly(*send);
    } catch (...) {
      record_failure(queue);
      return false;
    }
  }
  begin_all();  // their batches may be over now, which lets the next ones begin
  return !sends.empty();
}

void World::buffer_eagerly(Posted& send) {
  TransferBatch& batch = *send.batch;
  Endpoint& endpoint = *batch.endpoint;
  const Slice& slice = batch.transfers[send.index].slice;
  endpoint.stream.wait(send.begin);
  if (send.bytes > 0) {
    send.aside = allocate(send.bytes, slice.category(), endpoint.stream.get(), batch.where);
    check(cudaMemcpyAsync(send.aside, slice.data(), send.bytes, cudaMemcpyDeviceToDevice, endpoint.stream.get()),
          "cudaMemcpyAsync of a send");
  }
  send.batch = nullptr;
  send.begin = events_.record(endpoint.stream.get());
  batch.sent.push_back(send.begin);
  issued(batch, send.index);
}

void World::drop_messages() {
  each_peer([this](Endpoint& endpoint, Peer& peer) {
    for (Posted& send : peer.sends) memory_.free(std::exchange(send.aside, nullptr), endpoint.stream.get());
    peer.sends.clear();
    peer.receives.clear();
  });
}

}  // namespace lockstep::cuda
