// The verbs of a virtual rank that involve other ranks or queues, messages and closures, in virtual time.
#include <cmath>

#include "common/backends/sim/host_time.hpp"
#include "common/backends/sim/symmetry.hpp"
#include "common/backends/sim/world.hpp"

namespace lockstep::sim {

SimRank::SimRank(World& world, int rank) : RankBase(world, rank, &world.options().machine) {
  if (world.options().check_races) races_ = std::make_unique<RaceDetector>();
}

SimRank::~SimRank() { queues_.clear(); }  // closures may hold the last slices, which are counted here

void SimRank::made(Queue& queue) {
  if (races()) queue.component = races()->add_component();
}
void SimRank::made(Endpoint& endpoint) {
  endpoint.symmetric = world_.groups().is_symmetric(endpoint.group);
  endpoint.share = world_.groups().symmetry_share(endpoint.group);
  if (races()) endpoint.component = races()->add_component();
}

RaceDetector::Moment SimRank::moment(const Queue& queue, std::uint64_t ahead) {
  return {static_cast<std::uint32_t>(recorder_.reached(queue.index) + ahead), queue.clock};
}

/// Records the detector's race, with queues in place of its components.
void SimRank::note_race() {
  if (!races() || !races()->found()) return;
  TraceRace race = *races()->found();
  race.rank = rank_;
  for (TraceAccess* access : {&race.first, &race.second}) {
    const int component = access->queue;
    for (const auto& queue : queues_)
      if (queue->component == component) access->queue = queue->index;
    each_endpoint([&](const Endpoint& endpoint) {
      if (endpoint.component == component) access->queue = endpoint.queue;
    });
  }
  recorder_.note_race(std::move(race));
}

Rank SimRank::symmetric_group(int size, int level, double share, CollectiveSeconds library) {
  const int group = world_.groups().symmetric_group(rank_, size, level, share, std::move(library));
  world_.join_new_groups();
  return handle(group, 0);
}

void SimRank::sync(Queue& queue) {
  if (queue.clock > world_.time()) world_.sleep_until(queue, queue.clock);
}

// Messages ------------------------------------------------------------------------------------------------------------

Ticket SimRank::start(CommunicatorKey at, std::span<const Transfer> transfers, Location where) {
  if (world_.stopped()) return {};
  Queue& queue = calling(at.queue, where);
  Endpoint& endpoint = this->endpoint(queue, at.group);
  TransferBatch* batch = world_.new_batch();
  batch->endpoint = &endpoint;
  batch->number = ++endpoint.started;
  batch->transfers.assign(transfers.begin(), transfers.end());
  batch->pending = static_cast<int>(transfers.size());
  batch->posted = queue.clock;
  batch->where = where;
  batch->by_library = endpoint.symmetric && queue.library.depth > 0 && queue.library.group == at.group;
  if (batch->by_library)
    for (const Transfer& transfer : transfers)
      if (transfer.kind == Transfer::Kind::send) queue.library.sent += static_cast<double>(transfer.slice.bytes());
  std::span<const int> members;  // filled only for traces, because the look-up takes time
  if (recorder_.tracing()) members = world_.groups().members(at.group);
  batch->collective = recorder_.batch_started(at.queue, at.group, members, transfers);
  if (races()) {
    if (!batch->clock) batch->clock = std::make_unique<VectorClock>();
    *batch->clock = races()->start(queue.component, endpoint.component, batch->transfers, where, moment(queue, 0));
  }
  (endpoint.first ? endpoint.last->next : endpoint.first) = batch;
  endpoint.last = batch;
  if (!endpoint.incomplete) endpoint.incomplete = batch;
  const Ticket ticket{Ticket::Kind::batch, at.group, at.queue, batch->number};
  world_.post(batch);
  return ticket;
}

void SimRank::wait_batch(Queue& queue, const Ticket& ticket, Location where) {
  if (ticket.queue != queue.index)
    usage_error(waited_on_wrong_queue(world_.queue_name(ticket.queue), world_.queue_name(queue.index)), where);
  Endpoint& endpoint = this->endpoint(queue, ticket.group);
  if (ticket.number > endpoint.started) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= endpoint.waited) return;
  const double before = queue.clock;
  if (endpoint.completed < ticket.number) {
    endpoint.waiter = &queue;
    endpoint.waiter_number = ticket.number;
    world_.block(queue, {Blocked::On::batch, ticket.group, ticket.number, where});
  }
  const TransferBatch* last = endpoint.batch(ticket.number);
  if (last->completion > queue.clock) {
    if (watched() && last->completion > world_.time()) world_.sleep_until(queue, last->completion);
    queue.clock = std::max(queue.clock, last->completion);
  }
  recorder_.waited(queue.index, before, queue.clock, where, recorder_.waits_for(queue.index, ticket));
  if (races()) races()->wait(queue.component, *last->clock);
  for (; endpoint.waited < ticket.number; ++endpoint.waited) {
    TransferBatch* done = endpoint.first;
    endpoint.first = done->next;
    world_.retire(done);
  }
}

// Closures ------------------------------------------------------------------------------------------------------------

void SimRank::issued(Queue& main, Closure& closure) {
  closure.issued = main.clock;
  if (races()) closure.clock = races()->fork(main.component);
}

void SimRank::begins(Queue& queue, Closure& closure) {
  queue.clock = std::max(queue.clock, closure.issued) + jitter();
  sync(queue);
  if (races()) races()->begin(queue.component, closure.clock);
}

void SimRank::ends(Queue& queue, Closure& closure) {
  sync(queue);
  closure.finished = queue.clock;
  if (races()) closure.clock = races()->end(queue.component);
}

void SimRank::waited_for(Queue& main, Closure& closure, Location where, std::uint64_t position) {
  const double before = main.clock;
  main.clock = std::max(main.clock, closure.finished);
  recorder_.waited(0, before, main.clock, where, position);
  if (races()) races()->begin(main.component, closure.clock);
}

}  // namespace lockstep::sim

namespace lockstep {

Rank symmetric_group(Rank me, int size, int level, double share, CollectiveSeconds library) {
  auto* rank = dynamic_cast<sim::SimRank*>(&me.backend());
  if (!rank || size < 1 || level < 0 || !(share > 0))
    usage_error("a symmetric group needs the simulator, size ≥ 1, level ≥ 0 and share > 0");
  return rank->symmetric_group(size, level, share, std::move(library));
}

void pass_host_time(Rank me, double seconds) {
  auto* rank = dynamic_cast<sim::SimRank*>(&me.backend());
  if (!rank || !(seconds >= 0) || std::isinf(seconds))
    usage_error("host time needs the simulator, and must be finite and not negative");
  rank->recorder().position(me.queue());  // a closure that only passes time is in traces, too
  rank->queue(me.queue()).clock += seconds;
}

}  // namespace lockstep
