// The scheduler of the virtual cluster, and how messages meet.
#include "common/sim/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/device/cpu/cpu_device.hpp"
#include "common/host/host.hpp"

namespace lockstep::sim {

World::World(const RunOptions& options, const Program& program)
    : options_(options), program_(program), network_(options.machine, options.ranks), values_(options.ranks) {
  if (!options.phantom) device_ = make_cpu_device(options.threads > 0 ? options.threads : read_host().usable_cores);
  std::vector<int> everyone(options.ranks);
  for (int r = 0; r < options.ranks; ++r) {
    everyone[r] = r;
    ranks_.push_back(std::make_unique<RankState>(*this, r));
  }
  make_group(everyone);
}

int World::make_group(const std::vector<int>& members) {
  auto [known, fresh] = group_of_members_.try_emplace(members, static_cast<int>(groups_.size()));
  if (!fresh) return known->second;
  const int index = known->second;
  groups_.push_back(std::make_unique<Group>());
  groups_.back()->members = members;
  groups_.back()->setup_calls.resize(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) ranks_[members[i]]->join_group(index, static_cast<int>(i));
  return index;
}

int World::queue_id(std::string_view name) {
  auto known = std::find(queue_names_.begin(), queue_names_.end(), name);
  if (known == queue_names_.end()) known = queue_names_.insert(known, std::string(name));
  return static_cast<int>(known - queue_names_.begin());
}

void World::complete_setup(int group_index, SetUp& setup) {
  const std::vector<int> members = groups_[group_index]->members;
  if (setup.is_split) {
    setup.result.assign(members.size(), -1);
    std::map<int, std::vector<int>> by_color;
    for (std::size_t i = 0; i < members.size(); ++i)
      if (setup.colors[i] >= 0) by_color[setup.colors[i]].push_back(static_cast<int>(i));
    for (auto& [color, ranks] : by_color) {
      std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return setup.keys[a] < setup.keys[b]; });
      std::vector<int> world;
      for (int rank : ranks) world.push_back(members[rank]);
      const int made = make_group(world);
      for (int rank : ranks) setup.result[rank] = made;
    }
  }
  for (Queue* queue : setup.waiting) wake(*queue, queue->clock);
  setup.waiting.clear();
}

// Fibers --------------------------------------------------------------------------------------------------------------

void World::start_fiber(Queue& queue, std::function<void()> body, double time) {
  queue.fiber = make_fiber(options_.stack_bytes, queue.owner->world_rank(),
                           [this, &queue, body = std::move(body)] { body_of(queue, body); });
  events_.put(std::max(time, time_), {EventKind::wake, &queue});
}

void World::body_of(Queue& queue, const std::function<void()>& body) {
  try {
    body();
  } catch (const Unwind&) {
  } catch (...) {
    record_failure(queue.owner->world_rank(), queue);
  }
  queue.ended = true;
}

bool World::stopped() const {
  if (!failing_) return false;
  if (std::uncaught_exceptions() == 0) throw Unwind{};
  return true;
}

void World::block(Queue& queue, Blocked why) {
  queue.blocked = why;
  queue.fiber->suspend();
  queue.blocked = {};
  if (failing_) throw Unwind{};
}

void World::sleep_until(Queue& queue, double time) {
  events_.put(time, {EventKind::wake, &queue});
  queue.fiber->suspend();
  queue.clock = std::max(queue.clock, time);
  if (failing_) throw Unwind{};
}

void World::wake_at(Queue& queue, double time) {
  queue.blocked.on = Blocked::On::nothing;  // so that nobody wakes it twice
  events_.put(time, {EventKind::wake, &queue});
}

void World::wake(Queue& queue, double time) {
  // A rank with nothing beside main may run ahead: nobody can see what it does before its next message.
  if (queue.owner->watched() && time > time_) return wake_at(queue, time);
  queue.blocked.on = Blocked::On::nothing;
  runnable_.push_back(&queue);
}

void World::resume(Queue& queue) {
  running_ = &queue;
  queue.fiber->resume();
  running_ = nullptr;
}

void World::record_failure(int rank, const Queue& queue) {
  if (failing_) return;  // the first failure is the one to explain
  failing_ = true;
  failed_rank_ = rank;
  verdict_ = Verdict::fail;
  const std::string who = queue.current ? fmt::format("rank {}, in the closure run at {} on queue \"{}\": ", rank,
                                                      describe(queue.current->where), queue_names_[queue.index])
                                        : fmt::format("rank {}: ", rank);
  try {
    throw;
  } catch (const Error& error) {
    verdict_ = error.verdict();
    message_ = who + error.what();
  } catch (const std::exception& error) {
    message_ = who + error.what();
  } catch (...) {
    message_ = who + "threw something that is not a std::exception";
  }
}

void World::loop() {
  while (!failing_) {
    if (!runnable_.empty()) {
      // In the order woken; what they wake comes after.
      for (std::size_t i = 0; i < runnable_.size() && !failing_; ++i) resume(*runnable_[i]);
      runnable_.clear();
    } else if (events_.due()) {
      handle(events_.take());
    } else if (network_.has_work()) {
      network_.grant(
          time_, [this](Message* message) { granted(message); },
          [this](Port* port) {
            events_.put(port->free_at, {EventKind::port, port});
          });
    } else if (!events_.empty()) {
      time_ = events_.advance();
    } else {
      return;
    }
  }
}

void World::handle(Event event) {
  switch (event.kind) {
    case EventKind::wake: resume(*static_cast<Queue*>(event.what)); break;
    case EventKind::begin: {
      Batch* batch = static_cast<Batch*>(event.what);
      try {
        begin(batch);
      } catch (...) {
        record_failure(batch->channel->owner->world_rank(), batch->channel->owner->queue(batch->channel->queue));
      }
      break;
    }
    case EventKind::port: {
      Port* port = static_cast<Port*>(event.what);
      port->alarm = false;
      network_.port_freed(port);
      break;
    }
  }
}

// Messages ------------------------------------------------------------------------------------------------------------

Batch* World::new_batch() {
  if (free_batches_.empty()) return &batch_store_.emplace_back();
  Batch* batch = free_batches_.back();
  free_batches_.pop_back();
  return batch;
}

void World::retire(Batch* batch) {
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
  *message = {};
  free_messages_.push_back(message);
}

Peer& World::peer(Channel& channel, int rank) {
  constexpr std::size_t kFew = 8;
  if (channel.dense) {
    if (auto& slot = channel.peers[rank]) return *slot;
  } else {
    for (auto& known : channel.peers)
      if (known->rank == rank) return *known;
  }
  const Group& group = *groups_[channel.group];
  auto fresh = std::make_unique<Peer>();
  fresh->rank = rank;
  fresh->world = group.members[rank];
  fresh->path = network_.path(channel.owner->world_rank(), fresh->world);
  Peer* made = fresh.get();
  if (!channel.dense && channel.peers.size() == kFew) {
    std::vector<std::unique_ptr<Peer>> by_rank(group.members.size());
    for (auto& known : channel.peers) by_rank[known->rank] = std::move(known);
    channel.peers = std::move(by_rank);
    channel.dense = true;
  }
  if (channel.dense)
    channel.peers[rank] = std::move(fresh);
  else
    channel.peers.push_back(std::move(fresh));
  // What one end sends, the other receives.
  made->out = &peer(ranks_[made->world]->channel(channel.group, channel.queue), channel.rank).in;
  return *made;
}

void World::post(Batch* batch) {
  const Channel& channel = *batch->channel;
  if (channel.completed + 1 < batch->number) return;  // the one before it will post it
  const double time = std::max(batch->posted, channel.free_at);
  if (time <= time_)
    begin(batch);
  else
    events_.put(time, {EventKind::begin, batch});
}

void World::begin(Batch* batch) {
  batch->begin = time_;
  batch->completion = time_;
  const std::size_t count = batch->transfers.size();
  for (std::size_t i = 0; i < count; ++i) {
    Transfer& transfer = batch->transfers[i];
    if (transfer.kind == Transfer::Kind::send)
      post_send(batch, transfer);
    else
      post_receive(batch, transfer);
  }
}

namespace {
void append(Pair& pair, Message* message) {
  (pair.first ? pair.last->next : pair.first) = message;
  pair.last = message;
}

Message* pop(Pair& pair) {
  Message* message = pair.first;
  pair.first = message->next;
  message->next = nullptr;
  return message;
}
}  // namespace

void World::post_send(Batch* batch, Transfer& transfer) {
  Peer& peer = peer_to(*batch->channel, transfer.peer);
  const std::uint64_t bytes = transfer.slice.bytes();
  ++peer.traffic.messages_sent;
  peer.traffic.bytes_sent += bytes;
  ++messages_;
  const bool met = peer.out->first && !peer.out->first->sender;
  Message* message = met ? pop(*peer.out) : new_message();
  message->sender = batch;
  message->out = &transfer;
  message->path = &peer.path;
  message->elements = transfer.slice.size();
  message->bytes = bytes;
  message->dtype = transfer.slice.dtype();
  message->from = batch->channel->owner->world_rank();
  message->where = batch->where;
  message->collective = batch->collective;
  message->issue = ++issues_;
  message->ready = time_;
  if (met) {
    check_match(*message);
    network_.add_ready(message);
  } else {
    append(*peer.out, message);
    if (bytes <= options_.machine.eager_bytes) network_.add_ready(message);
  }
}

void World::post_receive(Batch* batch, Transfer& transfer) {
  Peer& peer = peer_from(*batch->channel, transfer.peer);
  ++peer.traffic.messages_received;
  peer.traffic.bytes_received += transfer.slice.bytes();
  const bool met = peer.in.first && peer.in.first->sender;
  Message* message = met ? pop(peer.in) : new_message();
  message->receiver = batch;
  message->in = &transfer;
  if (!met) {
    append(peer.in, message);
    return;
  }
  check_match(*message);
  if (message->granted >= 0) {  // it arrived, or is on its way
    deliver(message);
  } else if (message->bytes > options_.machine.eager_bytes) {
    message->ready = time_;
    network_.add_ready(message);
  }
}

void World::check_match(Message& message) {
  const Slice& in = message.in->slice;
  const Batch& receiver = *message.receiver;
  const bool regions_differ = message.collective && receiver.collective && message.collective != receiver.collective &&
                              std::strcmp(message.collective, receiver.collective) != 0;
  if (message.elements == in.size() && message.dtype == in.dtype() && !regions_differ) return;
  auto side = [](int rank, const char* verb, std::uint64_t elements, DType dtype, Location where, const char* region) {
    return fmt::format("rank {} {} {} {} at {}{}", rank, verb, elements, to_string(dtype), describe(where),
                       region ? fmt::format(" in region \"{}\"", region) : "");
  };
  throw Error(Verdict::mismatch, fmt::format("MISMATCH in {} of a message: {}; {}.",
                                             regions_differ                  ? "the collective"
                                             : message.elements != in.size() ? "the size"
                                                                             : "the element type",
                                             side(message.from, "sends", message.elements, message.dtype, message.where,
                                                  message.collective),
                                             side(receiver.channel->owner->world_rank(), "receives", in.size(),
                                                  in.dtype(), receiver.where, receiver.collective)));
}

void World::granted(Message* message) {
  const Path& path = *message->path;
  const double bytes = static_cast<double>(message->bytes);
  message->granted = time_;
  message->arrival = time_ + path.alpha + bytes * path.beta;
  if (!message->receiver && message->out->slice.data()) {  // the sender may change its memory before it is received
    message->early = std::make_unique<char[]>(message->bytes);
    std::memcpy(message->early.get(), message->out->slice.data(), message->bytes);
  }
  Batch* sender = message->sender;
  if (message->receiver) deliver(message);
  half_done(sender, time_ + bytes * path.beta);
}

void World::deliver(Message* message) {
  if (void* to = message->in->slice.data(); to && message->bytes > 0)
    std::memcpy(to, message->early ? message->early.get() : message->out->slice.data(), message->bytes);
  Batch* receiver = message->receiver;
  const double arrival = std::max(message->arrival, time_);
  recycle(message);
  half_done(receiver, arrival);
}

void World::half_done(Batch* batch, double time) {
  batch->completion = std::max(batch->completion, time);
  if (--batch->pending == 0) completed(batch);
}

void World::completed(Batch* batch) {
  Channel& channel = *batch->channel;
  RankState& rank = *channel.owner;
  channel.completed = batch->number;
  channel.free_at = batch->completion;
  channel.incomplete = batch->next;
  rank.recorder_.transferred(channel.queue, batch->begin, batch->completion, batch->transfers, batch->where,
                             batch->collective);
  if (channel.incomplete) post(channel.incomplete);
  if (channel.waiter && channel.completed >= channel.waiter_number) {
    Queue* waiter = channel.waiter;
    channel.waiter = nullptr;
    wake(*waiter, channel.batch(channel.waiter_number)->completion);
  }
}

// The run -------------------------------------------------------------------------------------------------------------

Outcome World::run() {
  for (auto& rank : ranks_) {
    RankState* state = rank.get();
    state->add_queues_up_to(0);
    Queue& main = state->queue(0);
    const Rank handle(*state, 0, 0, state->world_rank(), options_.ranks);
    start_fiber(
        main,
        [this, state, handle] {
          values_[state->world_rank()] = program_(handle);
          state->check_finished();
        },
        0);
  }
  loop();
  if (!failing_) judge_end();
  unwind_all();
  Outcome outcome;
  fill(outcome);
  return outcome;
}

void World::judge_end() {
  const bool all_ended = std::all_of(ranks_.begin(), ranks_.end(), [](auto& rank) { return rank->queue(0).ended; });
  if (!all_ended) {
    verdict_ = Verdict::deadlock;
    message_ = explain_deadlock();
  } else if (std::string unread = explain_unread(); !unread.empty()) {
    verdict_ = Verdict::unread;
    message_ = unread;
  }
}

void World::unwind_all() {
  failing_ = true;
  for (auto& rank : ranks_)
    for (auto& queue : rank->queues())
      if (queue->fiber && queue->fiber->started() && !queue->ended) resume(*queue);
}

void World::fill(Outcome& outcome) {
  outcome.verdict = verdict_;
  outcome.message = message_;
  outcome.failed_rank = failed_rank_;
  outcome.messages = messages_;
  outcome.trace.queues = queue_names_;
  for (auto& rank : ranks_) {
    outcome.ledgers.push_back(rank->ledger());
    outcome.seconds = std::max(outcome.seconds, outcome.ledgers.back().seconds);
    auto& events = rank->recorder_.trace();
    outcome.trace.events.insert(outcome.trace.events.end(), std::make_move_iterator(events.begin()),
                                std::make_move_iterator(events.end()));
    if (verdict_ == Verdict::pass && rank->live_blocks_ > 0) {
      outcome.verdict = Verdict::usage;
      outcome.failed_rank = rank->world_rank();
      outcome.message = fmt::format("rank {}: USAGE: {} allocations outlive the program: a Slice was kept outside it",
                                    rank->world_rank(), rank->live_blocks_);
    }
  }
  outcome.values = std::move(values_);
}

bool World::has_outliving_slices() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](auto& rank) { return rank->live_blocks_ > 0; });
}

}  // namespace lockstep::sim
