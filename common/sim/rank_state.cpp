// The verbs of one virtual rank that others take part in: set-up, messages, closures.
#include <fmt/format.h>

#include "common/sim/world.hpp"

namespace lockstep::sim {

RankState::RankState(World& world, int rank)
    : world_(world),
      rank_(rank),
      perturbed_(world.options().perturb.has_value()),
      recorder_(rank, world.options().trace) {
  if (world.options().check_races) races_ = std::make_unique<RaceDetector>();
}

RankState::~RankState() { queues_.clear(); }  // closures may hold the last slices, which are counted here

// Queues and groups ---------------------------------------------------------------------------------------------------

RankState::Member& RankState::member(int group) {
  for (Member& member : members_)
    if (member.group == group) return member;
  usage_error(not_in_group(rank_));
}

void RankState::join_group(int group, int rank) { members_.push_back({group, rank, {}}); }

int RankState::rank_in(int group) const {
  for (const Member& member : members_)
    if (member.group == group) return member.rank;
  return -1;
}

Channel& RankState::channel(int group, int queue) {
  Member& me = member(group);
  if (static_cast<std::size_t>(queue) >= me.channels.size()) me.channels.resize(queue + 1);
  Channel*& known = me.channels[queue];
  if (known) return *known;
  Channels& channels = world_.channels(group);
  if (static_cast<std::size_t>(queue) >= channels.size()) channels.resize(queue + 1);
  if (channels[queue].empty()) channels[queue].resize(world_.groups().members(group).size());
  auto& slot = channels[queue][me.rank];
  slot = std::make_unique<Channel>();
  slot->owner = this;
  slot->group = group;
  slot->queue = queue;
  slot->rank = me.rank;
  if (races_) slot->component = races_->add_component();
  return *(known = slot.get());
}

Channel& RankState::channel(Queue& queue, int group) {
  if (!queue.recent || queue.recent->group != group) queue.recent = &channel(group, queue.index);
  return *queue.recent;
}

Queue& RankState::calling(int index, Location where) {
  Queue& queue = *queues_[index];
  const Queue* running = world_.running();
  if (running == &queue) return queue;
  const bool mine = running && running->owner == this;
  wrong_queue(index == 0, world_.queue_name(index), mine ? world_.queue_name(running->index) : "", where);
}

void RankState::sync(Queue& queue) {
  if (queue.clock > world_.time()) world_.sleep_until(queue, queue.clock);
}

void RankState::add_queues_up_to(int index) {
  while (static_cast<int>(queues_.size()) <= index) {
    queues_.push_back(std::make_unique<Queue>());
    Queue& made = *queues_.back();
    made.owner = this;
    made.index = static_cast<int>(queues_.size()) - 1;
    recorder_.add_queue(world_.queue_name(made.index));
    if (races_) made.component = races_->add_component();
  }
}

Rank RankState::stream(lockstep::Channel at, std::string_view name, Location where) {
  if (world_.stopped()) return {};
  Queue& queue = calling(at.queue, where);
  if (queue.index != 0) usage_error("stream is set-up: call it on main", where);
  const int id = world_.queue_id(name);
  add_queues_up_to(id);
  set_up(queue, at.group, {.name = std::string(name), .where = where});
  return Rank(*this, at.group, id, member(at.group).rank, static_cast<int>(world_.groups().members(at.group).size()));
}

Rank RankState::split(lockstep::Channel at, int color, int key, Location where) {
  if (world_.stopped()) return {};
  Queue& queue = calling(at.queue, where);
  if (queue.index != 0) usage_error("split is set-up: call it on main", where);
  const int made = set_up(queue, at.group, {.is_split = true, .color = color, .key = key, .where = where});
  if (made < 0) return Rank(*this, -1, 0, -1, 0);
  return Rank(*this, made, 0, rank_in(made), static_cast<int>(world_.groups().members(made).size()));
}

int RankState::set_up(Queue& queue, int group, const Groups::Call& call) {
  const int me = member(group).rank;  // first: it refuses who is not a member
  const Groups::Arrival arrival = world_.groups().arrive(group, me, rank_, call);
  if (arrival.complete) {
    world_.join_new_groups();
    for (int waiting : arrival.waiting) {
      Queue& main = world_.rank(waiting).queue(0);
      world_.wake(main, main.clock);
    }
  } else {
    world_.block(queue, {.on = Blocked::On::setup, .number = arrival.number, .group = group, .where = call.where});
  }
  return world_.groups().result(group, arrival.number, me);
}

// Messages ------------------------------------------------------------------------------------------------------------

Ticket RankState::start(lockstep::Channel at, std::span<const Transfer> transfers, Location where) {
  if (world_.stopped()) return {};
  Queue& queue = calling(at.queue, where);
  Channel& channel = this->channel(queue, at.group);
  Batch* batch = world_.new_batch();
  batch->channel = &channel;
  batch->number = ++channel.started;
  batch->transfers.assign(transfers.begin(), transfers.end());
  batch->pending = static_cast<int>(transfers.size());
  batch->posted = queue.clock;
  batch->where = where;
  batch->collective = recorder_.batch_started(at.queue, transfers);
  if (races_) {
    std::vector<RaceDetector::Use> uses;
    for (const Transfer& transfer : batch->transfers) {
      const bool receives = transfer.kind == Transfer::Kind::receive;
      uses.push_back({&transfer.slice, receives, receives ? "a receive started" : "a send started"});
    }
    batch->clock = std::make_unique<VectorClock>(races_->start(queue.component, channel.component, uses, where));
  }
  (channel.first ? channel.last->next : channel.first) = batch;
  channel.last = batch;
  if (!channel.incomplete) channel.incomplete = batch;
  const Ticket ticket{Ticket::Kind::batch, at.group, at.queue, batch->number};
  world_.post(batch);
  return ticket;
}

void RankState::wait(lockstep::Channel at, Ticket ticket, Location where) {
  if (world_.stopped()) return;
  Queue& queue = calling(at.queue, where);
  if (ticket.kind == Ticket::Kind::batch)
    wait_batch(queue, ticket, where);
  else
    wait_closure(queue, ticket, where);
}

void RankState::wait_batch(Queue& queue, const Ticket& ticket, Location where) {
  if (ticket.queue != queue.index)
    usage_error(waited_on_wrong_queue(world_.queue_name(ticket.queue), world_.queue_name(queue.index)), where);
  Channel& channel = this->channel(queue, ticket.group);
  if (ticket.number > channel.started) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= channel.waited) return;
  const double before = queue.clock;
  if (channel.completed < ticket.number) {
    channel.waiter = &queue;
    channel.waiter_number = ticket.number;
    world_.block(queue, {.on = Blocked::On::batch, .channel = &channel, .number = ticket.number, .where = where});
  }
  const Batch* last = channel.batch(ticket.number);
  if (last->completion > queue.clock) {
    if (watched() && last->completion > world_.time()) world_.sleep_until(queue, last->completion);
    queue.clock = std::max(queue.clock, last->completion);
  }
  recorder_.waited(queue.index, before, queue.clock, where);
  if (races_) races_->wait(queue.component, *last->clock);
  for (; channel.waited < ticket.number; ++channel.waited) {
    Batch* done = channel.first;
    channel.first = done->next;
    world_.retire(done);
  }
}

// Closures ------------------------------------------------------------------------------------------------------------

Ticket RankState::run(lockstep::Channel, Rank as, std::function<void(Rank)> f, Location where) {
  if (world_.stopped()) return {};
  Queue& main = calling(0, where);
  Queue& queue = *queues_[as.queue()];
  auto closure = std::make_unique<Closure>();
  closure->number = ++queue.closures_run;
  closure->f = std::move(f);
  closure->as = as;
  closure->issued = main.clock;
  closure->where = where;
  if (races_) closure->clock = races_->fork(main.component);
  const Ticket ticket{Ticket::Kind::closure, as.group(), as.queue(), closure->number};
  queue.closures.push_back(std::move(closure));
  ++live_closures_;
  if (!queue.fiber)
    world_.start_fiber(
        queue, [this, &queue] { queue_loop(queue); }, main.clock);
  else if (queue.blocked.on == Blocked::On::work)
    world_.wake_at(queue, std::max(main.clock, world_.time()));
  return ticket;
}

void RankState::queue_loop(Queue& queue) {
  while (true) {
    if (queue.next_closure == queue.closures.size()) {
      world_.block(queue, {.on = Blocked::On::work});
      continue;
    }
    Closure& closure = *queue.closures[queue.next_closure];
    queue.clock = std::max(queue.clock, closure.issued) + jitter();
    sync(queue);
    if (races_) races_->begin(queue.component, closure.clock);
    queue.current = &closure;
    closure.f(closure.as);
    sync(queue);
    if (const auto bytes = recorder_.scratch(queue.index)) usage_error(scratch_left(bytes), closure.where);
    queue.current = nullptr;
    closure.finished = queue.clock;
    if (races_) closure.clock = races_->end(queue.component);
    ++queue.next_closure;
    --live_closures_;
    Queue& main = *queues_[0];
    if (main.blocked.on == Blocked::On::closure && main.blocked.queue == queue.index &&
        closure.number >= main.blocked.number)
      world_.wake(main, closure.finished);
  }
}

void RankState::wait_closure(Queue& main, const Ticket& ticket, Location where) {
  if (main.index != 0) usage_error(kClosureTicketOnMain, where);
  if (static_cast<std::size_t>(ticket.queue) >= queues_.size()) usage_error(kTicketOfAnotherRank, where);
  Queue& queue = *queues_[ticket.queue];
  if (ticket.number > queue.closures_run) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= queue.closures_waited) return;
  const double before = main.clock;
  Closure& last = *queue.closures[ticket.number - queue.closures_waited - 1];
  if (last.finished < 0)
    world_.block(main, {.on = Blocked::On::closure, .number = ticket.number, .queue = ticket.queue, .where = where});
  main.clock = std::max(main.clock, last.finished);
  recorder_.waited(0, before, main.clock, where);
  if (races_) races_->begin(main.component, last.clock);
  for (; queue.closures_waited < ticket.number; ++queue.closures_waited, --queue.next_closure)
    queue.closures.pop_front();
}

void RankState::check_finished() {
  for (const auto& queue : queues_)
    if (queue->closures_waited < queue->closures_run)
      usage_error(closure_not_waited_for(world_.queue_name(queue->index)), queue->closures.front()->where);
  for (const Member& member : members_)
    for (const Channel* channel : member.channels)
      if (channel && channel->first) usage_error(kTransfersNotWaitedFor, channel->first->where);
}

}  // namespace lockstep::sim
