// The verbs of one virtual rank that others take part in, messages and closures: what they are in virtual time.
#include <fmt/format.h>

#include "common/backends/sim/reflection.hpp"
#include "common/backends/sim/world.hpp"

namespace lockstep::sim {

RankState::RankState(World& world, int rank)
    : RankBase(world, rank, &world.options().machine), perturbed_(world.options().perturb.has_value()) {
  if (world.options().check_races) races_ = std::make_unique<RaceDetector>();
}

RankState::~RankState() { queues_.clear(); }  // closures may hold the last slices, which are counted here

void RankState::made(Queue& queue) {
  if (races_) queue.component = races_->add_component();
}
void RankState::made(Channel& channel) {
  channel.reflected = world_.groups().is_reflection(channel.group);
  if (races_) channel.component = races_->add_component();
}

Rank RankState::reflect(int size, int level) {
  const int group = world_.groups().reflect(rank_, size, level);
  world_.join_new_groups();
  return handle(group, 0);
}

void RankState::sync(Queue& queue) {
  if (queue.clock > world_.time()) world_.sleep_until(queue, queue.clock);
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
  std::span<const int> members;  // only traces ask, and looking them up takes time
  if (recorder_.tracing()) members = world_.groups().members(at.group);
  batch->collective = recorder_.batch_started(at.queue, at.group, members, transfers);
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
    world_.block(queue, {Blocked::On::batch, ticket.group, ticket.number, where});
  }
  const Batch* last = channel.batch(ticket.number);
  if (last->completion > queue.clock) {
    if (watched() && last->completion > world_.time()) world_.sleep_until(queue, last->completion);
    queue.clock = std::max(queue.clock, last->completion);
  }
  recorder_.waited(queue.index, before, queue.clock, where, recorder_.waits_for(queue.index, ticket));
  if (races_) races_->wait(queue.component, *last->clock);
  for (; channel.waited < ticket.number; ++channel.waited) {
    Batch* done = channel.first;
    channel.first = done->next;
    world_.retire(done);
  }
}

// Closures ------------------------------------------------------------------------------------------------------------

void RankState::issued(Queue& main, Closure& closure) {
  closure.issued = main.clock;
  if (races_) closure.clock = races_->fork(main.component);
}

void RankState::begins(Queue& queue, Closure& closure) {
  queue.clock = std::max(queue.clock, closure.issued) + jitter();
  sync(queue);
  if (races_) races_->begin(queue.component, closure.clock);
}

void RankState::ends(Queue& queue, Closure& closure) {
  sync(queue);
  closure.finished = queue.clock;
  if (races_) closure.clock = races_->end(queue.component);
}

void RankState::waited_for(Queue& main, Closure& closure, Location where, std::uint64_t position) {
  const double before = main.clock;
  main.clock = std::max(main.clock, closure.finished);
  recorder_.waited(0, before, main.clock, where, position);
  if (races_) races_->begin(main.component, closure.clock);
}

}  // namespace lockstep::sim

namespace lockstep {

Rank reflected(Rank me, int size, int level) {
  auto* rank = dynamic_cast<sim::RankState*>(&me.backend());
  if (!rank || size < 1 || level < 0)
    usage_error("reflections are of the simulator, of at least one rank on some link");
  return rank->reflect(size, level);
}

}  // namespace lockstep
