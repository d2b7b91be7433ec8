// The verbs of one rank that others take part in: set-up, messages, closures.
#include <fmt/format.h>

#include <algorithm>

#include "common/cuda/world.hpp"

namespace lockstep::cuda {

RankState::RankState(World& world, int rank) : world_(world), rank_(rank), recorder_(rank, world.options().trace) {}

RankState::~RankState() = default;

void RankState::play(const Program& program, Values& values) {
  Queue& main = *queues_[0];
  values = program(Rank(*this, 0, 0, rank_, world_.options().ranks));
  ended_ = here(main);
  end_stretch(main, ended_);
  check_finished();
}

// Queues and groups ---------------------------------------------------------------------------------------------------

const RankState::Member& RankState::member(int group) const {
  for (const Member& member : members_)
    if (member.group == group) return member;
  usage_error(not_in_group(rank_));
}

void RankState::join_group(int group, int rank) { members_.push_back({group, rank, {}}); }

Lane& RankState::lane(int group, int queue) {
  auto& lanes = const_cast<Member&>(member(group)).lanes;
  if (static_cast<std::size_t>(queue) >= lanes.size()) lanes.resize(queue + 1);
  if (lanes[queue]) return *lanes[queue];
  auto fresh = std::make_unique<Lane>();
  fresh->owner = this;
  fresh->group = group;
  fresh->queue = queue;
  fresh->rank = member(group).rank;
  lanes_.push_back(std::move(fresh));
  return *(lanes[queue] = lanes_.back().get());
}

Queue& RankState::calling(int index, Location where) const {
  Queue& queue = *queues_[index];
  const Queue* running = world_.running();
  if (running == &queue) return queue;
  const bool mine = running && running->owner == this;
  wrong_queue(index == 0, world_.queue_name(index), mine ? world_.queue_name(running->index) : "", where);
}

void RankState::add_queues_up_to(int index) {
  while (static_cast<int>(queues_.size()) <= index) {
    queues_.push_back(std::make_unique<Queue>());
    Queue& made = *queues_.back();
    made.owner = this;
    made.index = static_cast<int>(queues_.size()) - 1;
    recorder_.add_queue(world_.queue_name(made.index));
  }
}

Rank RankState::stream(Channel at, std::string_view name, Location where) {
  if (world_.stopped()) return {};
  Queue& queue = calling(at.queue, where);
  if (queue.index != 0) usage_error("stream is set-up: call it on main", where);
  const int id = world_.queue_id(name);
  add_queues_up_to(id);
  set_up(queue, at.group, {.name = std::string(name), .where = where});
  return Rank(*this, at.group, id, member(at.group).rank, static_cast<int>(world_.groups().members(at.group).size()));
}

Rank RankState::split(Channel at, int color, int key, Location where) {
  if (world_.stopped()) return {};
  Queue& queue = calling(at.queue, where);
  if (queue.index != 0) usage_error("split is set-up: call it on main", where);
  const int made = set_up(queue, at.group, {.is_split = true, .color = color, .key = key, .where = where});
  if (made < 0) return Rank(*this, -1, 0, -1, 0);
  return Rank(*this, made, 0, member(made).rank, static_cast<int>(world_.groups().members(made).size()));
}

int RankState::set_up(Queue& queue, int group, const Groups::Call& call) {
  const int me = member(group).rank;  // first: it refuses who is not a member
  const Groups::Arrival arrival = world_.groups().arrive(group, me, rank_, call);
  if (arrival.complete) {
    world_.join_new_groups();
    for (int waiting : arrival.waiting) world_.wake(world_.rank(waiting).queue(0));
  } else {
    world_.block(queue, {.on = Blocked::On::setup, .number = arrival.number, .group = group, .where = call.where});
  }
  return world_.groups().result(group, arrival.number, me);
}

// Messages ------------------------------------------------------------------------------------------------------------

Ticket RankState::start(Channel at, std::span<const Transfer> transfers, Location where) {
  if (world_.stopped()) return {};
  Queue& queue = calling(at.queue, where);
  Lane& lane = this->lane(at.group, at.queue);
  auto batch = std::make_unique<Batch>();
  batch->lane = &lane;
  batch->number = ++lane.started;
  batch->transfers.assign(transfers.begin(), transfers.end());
  batch->issued.resize(transfers.size());
  batch->pending = transfers.size();
  batch->posted = here(queue);
  batch->follows_wait = lane.waited + 1 == batch->number;
  batch->where = where;
  batch->collective = recorder_.batch_started(at.queue, transfers);
  lane.batches.push_back(std::move(batch));
  const Ticket ticket{Ticket::Kind::batch, at.group, at.queue, lane.started};
  world_.post(lane.batches.back().get());
  return ticket;
}

void RankState::wait(Channel at, Ticket ticket, Location where) {
  if (world_.stopped()) return;
  Queue& queue = calling(at.queue, where);
  if (ticket.kind == Ticket::Kind::batch)
    wait_batch(queue, ticket, where);
  else
    wait_closure(queue, ticket, where);
}

/// The host waits until the batch is with the GPU, the stream until the GPU has done it.
void RankState::wait_batch(Queue& queue, const Ticket& ticket, Location where) {
  if (ticket.queue != queue.index)
    usage_error(waited_on_wrong_queue(world_.queue_name(ticket.queue), world_.queue_name(queue.index)), where);
  Lane& lane = this->lane(ticket.group, queue.index);
  if (ticket.number > lane.started) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= lane.waited) return;
  if (lane.issued < ticket.number) {
    lane.waiter = &queue;
    lane.waiter_number = ticket.number;
    world_.block(queue, {.on = Blocked::On::batch, .lane = &lane, .number = ticket.number, .where = where});
  }
  const Event before = here(queue);
  end_stretch(queue, before);
  const Batch& last = *lane.batch(ticket.number);  // over after all before it
  if (last.received) queue.stream.wait(last.received);
  for (const Event& sent : last.sent) queue.stream.wait(sent);
  waited(queue, before, where);
  for (; lane.waited < ticket.number; ++lane.waited) {
    for (const Transfer& transfer : lane.batches.front()->transfers) use(queue, transfer.slice);
    const auto done = std::move(lane.batches.front());  // its slices may be released when the lane is in order
    lane.batches.pop_front();
  }
}

// Closures ------------------------------------------------------------------------------------------------------------

Ticket RankState::run(Channel, Rank as, std::function<void(Rank)> f, Location where) {
  if (world_.stopped()) return {};
  Queue& main = calling(0, where);
  Queue& queue = *queues_[as.queue()];
  auto closure = std::make_unique<Closure>();
  closure->number = ++queue.closures_run;
  closure->f = std::move(f);
  closure->as = as;
  closure->where = where;
  closure->issued = here(main);
  closure->at_issue = main.known;
  const Ticket ticket{Ticket::Kind::closure, as.group(), as.queue(), closure->number};
  queue.closures.push_back(std::move(closure));
  if (!queue.fiber)
    world_.start_fiber(queue, [this, &queue] { serve(queue); });
  else if (queue.blocked.on == Blocked::On::work)
    world_.wake(queue);
  return ticket;
}

void RankState::serve(Queue& queue) {
  while (true) {
    if (queue.next_closure == queue.closures.size()) {
      world_.block(queue, {.on = Blocked::On::work});
      continue;
    }
    call(queue, *queue.closures[queue.next_closure]);
    ++queue.next_closure;
    const Blocked& main = queues_[0]->blocked;
    if (main.on == Blocked::On::closure && main.queue == queue.index &&
        queue.closures_waited + queue.next_closure >= main.number)
      world_.wake(*queues_[0]);
  }
}

namespace {
void join(Progress& known, const Progress& other) {
  if (known.size() < other.size()) known.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) known[i] = std::max(known[i], other[i]);
}
}  // namespace

void RankState::call(Queue& queue, Closure& closure) {
  queue.current = &closure;
  queue.stream.wait(closure.issued);
  queue.last = {};
  join(queue.known, closure.at_issue);
  closure.f(closure.as);
  if (const auto bytes = recorder_.scratch(queue.index)) usage_error(scratch_left(bytes), closure.where);
  closure.finished = here(queue);
  closure.at_finish = queue.known;
  end_stretch(queue, closure.finished);
  queue.current = nullptr;
}

void RankState::wait_closure(Queue& main, const Ticket& ticket, Location where) {
  if (main.index != 0) usage_error(kClosureTicketOnMain, where);
  if (static_cast<std::size_t>(ticket.queue) >= queues_.size()) usage_error(kTicketOfAnotherRank, where);
  Queue& queue = *queues_[ticket.queue];
  if (ticket.number > queue.closures_run) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= queue.closures_waited) return;
  Closure& last = *queue.closures[ticket.number - queue.closures_waited - 1];
  if (!last.finished)
    world_.block(main, {.on = Blocked::On::closure, .number = ticket.number, .queue = ticket.queue, .where = where});
  const Event before = here(main);
  end_stretch(main, before);
  main.stream.wait(last.finished);
  join(main.known, last.at_finish);
  waited(main, before, where);
  for (; queue.closures_waited < ticket.number; ++queue.closures_waited, --queue.next_closure) {
    const auto done = std::move(queue.closures.front());
    queue.closures.pop_front();
  }
}

void RankState::check_finished() const {
  for (const auto& queue : queues_)
    if (queue->closures_waited < queue->closures_run)
      usage_error(closure_not_waited_for(world_.queue_name(queue->index)), queue->closures.front()->where);
  for (const auto& lane : lanes_)
    if (!lane->batches.empty()) usage_error(kTransfersNotWaitedFor, lane->batches.front()->where);
}

}  // namespace lockstep::cuda
