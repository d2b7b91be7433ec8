// Matching of messages: begins batches, pairs transfers with their other halves, and starts messages that can move.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/backends/sim/world.hpp"

namespace lockstep::sim {

TransferBatch* World::new_batch() {
  if (free_batches_.empty()) return &batch_store_.emplace_back();
  TransferBatch* batch = free_batches_.back();
  free_batches_.pop_back();
  return batch;
}

void World::retire(TransferBatch* batch) {
  batch->transfers.clear();
  batch->next = nullptr;
  free_batches_.push_back(batch);
}

Message* World::new_message() {
  if (free_messages_.empty()) return &message_store_.emplace_back();
  Message* message = free_messages_.back();
  free_messages_.pop_back();
  return message;
}

void World::recycle(Message* message) {
  if (!message->out) message->early->payload.reset();
  message->sender = nullptr;
  message->receiver = nullptr;
  free_messages_.push_back(message);
}

Peer& World::peer(Endpoint& endpoint, int rank) {
  if (endpoint.symmetric) rank = 0;  // what is sent to a peer, a peer sends to this rank
  if (Peer* known = endpoint.peers.find(rank)) return *known;
  const int own = endpoint.owner->world_rank(), other = groups_.members(endpoint.group)[rank];
  Peer& made = endpoint.peers.add(rank);
  made.world = static_cast<std::uint32_t>(other);
  made.level = static_cast<std::uint32_t>(endpoint.symmetric ? groups_.symmetry_level(endpoint.group)
                                                             : network_.level_between(own, other));
  // One end's sends are the other end's receives.
  made.out = &peer(ranks_[other]->endpoint_at(endpoint.group, endpoint.queue), endpoint.rank).in;
  return made;
}

void World::post(TransferBatch* batch) {
  const Endpoint& endpoint = *batch->endpoint;
  if (endpoint.completed + 1 < batch->number) return;  // the batch before it will post it
  const double time = std::max(batch->posted, endpoint.free_at);
  if (time <= time_)
    begin(batch);
  else
    begin_at(time, batch);
}

void World::begin_at(double time, TransferBatch* batch) { events_.put(time, {EventKind::begin, batch}); }

void World::begin(TransferBatch* batch) {
  batch->begin = time_;
  batch->completion = time_;
  if (batch->endpoint->symmetric) return begin_symmetric(batch);
  const std::size_t count = batch->transfers.size();
  for (std::size_t i = 0; i < count; ++i) {
    Transfer& transfer = batch->transfers[i];
    if (transfer.kind == Transfer::Kind::send)
      post_send(batch, transfer);
    else
      post_receive(batch, transfer);
  }
}

/// Adds a transfer to its peer's traffic.
inline Peer& World::count_message(const TransferBatch& batch, const Transfer& transfer) {
  const bool sends = transfer.kind == Transfer::Kind::send;
  Peer& peer = sends ? peer_to(*batch.endpoint, transfer.peer) : peer_from(*batch.endpoint, transfer.peer);
  ++(sends ? peer.traffic.messages_sent : peer.traffic.messages_received);
  (sends ? peer.traffic.bytes_sent : peer.traffic.bytes_received) += transfer.slice.bytes();
  messages_ += sends ? 1 : 0;
  return peer;
}

/// Pairs sends and receives of the batch with each other, in order. Unpaired ones cost nothing.
void World::begin_symmetric(TransferBatch* batch) {
  if (batch->by_library) {  // at its region's end the queue's clock advances instead
    for (std::size_t i = 0, count = batch->transfers.size(); i < count; ++i) {
      count_message(*batch, batch->transfers[i]);
      half_done(batch, time_);
    }
    return;
  }
  std::vector<Transfer*> sends, receives;
  for (Transfer& transfer : batch->transfers)
    (transfer.kind == Transfer::Kind::send ? sends : receives).push_back(&transfer);
  const std::size_t pairs = std::min(sends.size(), receives.size());
  const std::size_t rest = batch->transfers.size() - 2 * pairs;
  for (std::size_t i = 0; i < pairs; ++i) {
    post_send(batch, *sends[i]);
    post_receive(batch, *receives[i]);
  }
  for (std::size_t i = 0; i < rest; ++i) half_done(batch, time_);
}

namespace {
void append(Pair& pair, Message* message) {
  (pair.first ? pair.last->next : pair.first) = message;
  pair.last = message;
}

Message* pop(Pair& pair) {
  Message* message = pair.first;
  pair.first = message == pair.last ? nullptr : std::exchange(message->next, nullptr);
  return message;
}
}  // namespace

void World::post_send(TransferBatch* batch, Transfer& transfer) {
  Peer& peer = count_message(*batch, transfer);
  const std::uint64_t bytes = transfer.slice.bytes();
  const bool met = peer.out->first && !peer.out->first->sender;
  Message* message = met ? pop(*peer.out) : new_message();
  message->sender = batch;
  message->out = &transfer;
  message->path = {static_cast<std::uint64_t>(batch->endpoint->owner->world_rank()), peer.world, peer.level};
  message->bytes = batch->endpoint->symmetric
                       ? static_cast<std::uint64_t>(std::llround(batch->endpoint->share * static_cast<double>(bytes)))
                       : bytes;
  message->issue = ++issues_;
  if (met) {
    check_match(*message);
    network_.add_ready(message, time_);
  } else {
    append(*peer.out, message);
    if (bytes <= options_.machine.eager_bytes) network_.add_ready(message, time_);
  }
}

void World::post_receive(TransferBatch* batch, Transfer& transfer) {
  Peer& peer = count_message(*batch, transfer);
  const bool met = peer.in.first && peer.in.first->sender;
  Message* message = met ? pop(peer.in) : new_message();
  message->receiver = batch;
  message->in = &transfer;
  if (!met) {
    append(peer.in, message);
    return;
  }
  check_match(*message);
  if (!message->out) {  // it has arrived or is in flight
    deliver(message, std::max(message->early->arrival, time_));
  } else if (message->bytes > options_.machine.eager_bytes) {
    network_.add_ready(message, time_);
  }
}

Half World::half_of(const TransferBatch& batch, const Slice& slice) {
  return {batch.endpoint->owner->world_rank(), slice.size(), slice.dtype(), batch.where, batch.collective};
}

void World::check_match(const Message& message) {
  const Slice& in = message.in->slice;
  const bool buffered = !message.out;
  const std::size_t elements = buffered ? message.early->sent.elements : message.out->slice.size();
  const DType dtype = buffered ? message.early->sent.dtype : message.out->slice.dtype();
  const char* region = buffered ? message.early->sent.region : message.sender->collective;
  if (elements == in.size() && dtype == in.dtype() && regions_agree(region, message.receiver->collective)) return;
  if (message.receiver->endpoint->symmetric) return;
  const TransferBatch& receiver = *message.receiver;
  const Endpoint& end = *receiver.endpoint;
  const Half sent = buffered ? message.early->sent : half_of(*message.sender, message.out->slice);
  mismatch(sent, ranks_[sent.rank]->recorder().regions_of(end.queue, sent.region, sent.where), half_of(receiver, in),
           end.owner->recorder().regions_of(end.queue, receiver.collective, receiver.where),
           which_way(message.in->peer, end.rank, static_cast<int>(groups_.members(end.group).size())));
}

void World::granted(Message* message) {
  const Link& link = network_.link(message->path);
  const double busy = link.busy_seconds(static_cast<double>(message->bytes));
  TransferBatch* sender = message->sender;
  const double arrival = time_ + link.alpha + busy + sender->endpoint->owner->jitter();
  if (message->receiver)
    deliver(message, arrival);
  else
    buffer_eagerly(message, arrival);
  half_done(sender, time_ + busy);
}

/// Copies a message at its sender, whose memory may change, and whose batch may be gone, before it is received.
void World::buffer_eagerly(Message* message, double arrival) {
  const Slice& slice = message->out->slice;
  if (!message->early) message->early = std::make_unique<EarlyMessage>();
  EarlyMessage& early = *message->early;
  early = {half_of(*message->sender, slice), arrival, nullptr};
  if (const void* from = slice.data()) {
    early.payload = std::make_unique<char[]>(message->bytes);
    std::memcpy(early.payload.get(), from, message->bytes);
  }
  message->out = nullptr;
}

void World::deliver(Message* message, double arrival) {
  if (void* to = message->in->slice.data(); to && message->bytes > 0)
    std::memcpy(to, message->out ? message->out->slice.data() : message->early->payload.get(), message->bytes);
  TransferBatch* receiver = message->receiver;
  recycle(message);
  half_done(receiver, arrival);
}

void World::half_done(TransferBatch* batch, double time) {
  batch->completion = std::max(batch->completion, time);
  if (--batch->pending == 0) completed(batch);
}

void World::completed(TransferBatch* batch) {
  Endpoint& endpoint = *batch->endpoint;
  SimRank& rank = *endpoint.owner;
  endpoint.completed = batch->number;
  endpoint.free_at = batch->completion;
  endpoint.incomplete = batch->next;
  rank.recorder().transferred(endpoint.queue, endpoint.group, batch->begin, batch->completion, batch->transfers,
                              batch->where, batch->collective);
  // Schedules an event, even at this instant: begin_at could fail, and the network may be in the middle of its grants.
  if (TransferBatch* next = endpoint.incomplete) begin_at(std::max({next->posted, endpoint.free_at, time_}), next);
  if (endpoint.waiter && endpoint.completed >= endpoint.waiter_number) {
    Queue* waiter = endpoint.waiter;
    endpoint.waiter = nullptr;
    wake(*waiter, endpoint.batch(endpoint.waiter_number)->completion);
  }
}

}  // namespace lockstep::sim
