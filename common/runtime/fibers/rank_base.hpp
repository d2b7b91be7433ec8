// One rank of a backend whose ranks share a process: groups, queues, set-up and closures. They are the same whether
// queues have virtual clocks or GPU streams; each backend supplies the rest.
//
// `Types` names its World (world_base.hpp), BackendRank, Queue, Closure and Endpoint. An endpoint is a rank's end of
// one communicator, that is, of a (group, queue). check_backend lists what each must offer; the compiler checks it.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/runtime/backend.hpp"
#include "common/runtime/fibers/errors.hpp"
#include "common/runtime/fibers/groups.hpp"
#include "common/runtime/fibers/queue.hpp"
#include "common/runtime/ledger/recorder.hpp"
#include "common/runtime/run.hpp"

namespace lockstep {

template <class Types>
class RankBase : public Backend, public BlockOwner {
 public:
  using World = typename Types::World;
  using Queue = typename Types::Queue;
  using Closure = typename Types::Closure;
  using Endpoint = typename Types::Endpoint;

  void wait(CommunicatorKey at, Ticket ticket, Location where) final {
    if (world_.stopped()) return;
    Queue& queue = calling(at.queue, where);
    if (ticket.kind == Ticket::Kind::batch)
      self().wait_batch(queue, ticket, where);
    else
      wait_closure(queue, ticket, where);
  }
  Rank split(CommunicatorKey at, int color, int key, Location where) final {
    if (world_.stopped()) return {};
    const Groups::Call call{.is_split = true, .color = color, .key = key, .where = where};
    const int made = set_up("split", at, call);
    return made < 0 ? Rank(*this, -1, 0, -1, 0) : handle(made, 0);
  }
  Rank stream(CommunicatorKey at, std::string_view name, Location where) final {
    if (world_.stopped()) return {};
    const int id = world_.queue_id(name);
    add_queues_up_to(id);
    set_up("stream", at, {.name = std::string(name), .where = where});
    return handle(at.group, id);
  }
  Ticket run(CommunicatorKey, Rank as, std::function<void(Rank)> f, Location where) final;
  RankLedger ledger() const final;
  int world_rank() const final { return rank_; }

  Queue& queue(int index) { return *queues_[index]; }
  const std::vector<InArena<Queue>>& queues() const { return queues_; }
  Recorder& recorder() { return recorder_; }
  std::uint64_t live_blocks() const { return live_blocks_; }

  void join_group(int group, int rank) { members_.push_back({group, rank, {}}); }
  void add_queues_up_to(int index);
  Endpoint& endpoint_at(int group, int queue);  ///< made on first use
  template <class F>
  void each_endpoint(F f) const {
    for (const Member& member : members_)
      for (const auto& end : member.ends)
        if (end) f(*end);
  }
  void play(const Program& program, Values& values);  ///< body of main's fiber

 protected:
  struct Member {
    int group;
    int rank;
    std::vector<InArena<Endpoint>> ends;  // by queue
  };

  /// `machine`: cost model if time is modelled; null if it is measured.
  RankBase(World& world, int rank, const Machine* machine)
      : world_(world), rank_(rank), recorder_(rank, is_traced(world.options(), rank), machine, &world.arena()) {}
  ~RankBase() override = default;

  Member& member(int group) {
    for (Member& member : members_)
      if (member.group == group) return member;
    usage_error(not_in_group(rank_));
  }
  Rank handle(int group, int queue) {
    return Rank(*this, group, queue, member(group).rank, static_cast<int>(world_.groups().members(group).size()));
  }
  /// The queue with that index, which must be the one that is running.
  Queue& calling(int index, Location where) const {
    Queue* running = world_.running();
    const bool mine = running && running->owner == this;
    if (mine) running->last_call.where = where;
    if (mine && running->index == index) return *running;
    wrong_queue(index == 0, world_.queue_name(index), mine ? world_.queue_name(running->index) : "", where);
  }

  World& world_;
  std::vector<InArena<Queue>> queues_;
  int rank_;
  int live_closures_ = 0;  // launched by main and not ended
  Recorder recorder_;
  std::vector<Member> members_;
  std::uint64_t allocations_ = 0;
  std::uint64_t live_blocks_ = 0;

 private:
  static constexpr void check_backend();
  auto& self() { return static_cast<typename Types::BackendRank&>(*this); }
  auto& self() const { return static_cast<const typename Types::BackendRank&>(*this); }
  int set_up(const char* verb, CommunicatorKey at, const Groups::Call& call);
  void serve(Queue& queue);
  void wait_closure(Queue& main, const Ticket& ticket, Location where);
  void check_finished() const;
};

/// Requirements on a backend's types, checked once all of them are complete.
template <class Types>
constexpr void RankBase<Types>::check_backend() {
  using BackendRank = typename Types::BackendRank;
  static_assert(std::derived_from<BackendRank, RankBase>);
  static_assert(std::derived_from<Queue, QueueBase<Types>>);
  static_assert(std::derived_from<Closure, ClosureBase>);
  static_assert(requires(Queue queue) { queue.closures; });
  static_assert(
      requires(Endpoint end, BackendRank * owner, int number) {
        end.owner = owner;
        end.group = end.queue = number;
        end.rank = number;                                                  // the owner's rank in the group
        end.oldest();                                                       // first batch not waited for, or null
        end.each_peer([](int /*world rank*/, const auto& /*traffic*/) {});  // every peer it has met
      },
      "an endpoint lacks one of these");
  static_assert(
      requires(BackendRank rank, Queue queue, Endpoint end, Closure closure, const Ticket& ticket, Location where,
               std::uint64_t position, const RankLedger& ledger) {
        rank.wait_batch(queue, ticket, where);
        rank.made(queue);  // called for new queues
        rank.made(end);
        rank.issued(queue, closure);  // main has launched it: it may begin now
        rank.begins(queue, closure);  // called before its body
        rank.ends(queue, closure);
        rank.waited_for(queue, closure, where, position);  // main's later work comes after it
        rank.program_ended(queue);
        rank.ledger_taken();  // called after the run: data that only ledgers need may be freed
        { rank.seconds(ledger) } -> std::same_as<double>;  // of main's program; the rest of `ledger` is known
      },
      "a backend's rank lacks one of these");
}

// Groups and queues ---------------------------------------------------------------------------------------------------

template <class Types>
void RankBase<Types>::add_queues_up_to(int index) {
  while (static_cast<int>(queues_.size()) <= index) {
    queues_.push_back(world_.arena().template make<Queue>());
    Queue& made = *queues_.back();
    made.owner = &self();
    made.index = static_cast<int>(queues_.size()) - 1;
    recorder_.add_queue(world_.queue_name(made.index));
    self().made(made);
  }
}

template <class Types>
auto RankBase<Types>::endpoint_at(int group, int queue) -> Endpoint& {
  Member& me = member(group);
  if (static_cast<std::size_t>(queue) >= me.ends.size()) me.ends.resize(queue + 1);
  auto& end = me.ends[queue];
  if (end) return *end;
  end = world_.arena().template make<Endpoint>();
  end->owner = &self();
  end->group = group;
  end->queue = queue;
  end->rank = me.rank;
  self().made(*end);
  return *end;
}

/// Makes a set-up call. Returns the group that this rank is in once all members have made it; −1: none.
template <class Types>
int RankBase<Types>::set_up(const char* verb, CommunicatorKey at, const Groups::Call& call) {
  Queue& queue = calling(at.queue, call.where);
  if (queue.index != 0) usage_error(not_on_main(verb), call.where);
  const int me = member(at.group).rank;  // first: it rejects non-members
  const Groups::Arrival arrival = world_.groups().arrive(at.group, me, rank_, call);
  if (arrival.complete) {
    world_.join_new_groups();
    for (int waiting : arrival.waiting) world_.wake_from_set_up(world_.rank(waiting).queue(0));
  } else {
    world_.block(queue, {Blocked::On::setup, at.group, arrival.number, call.where});
  }
  return world_.groups().result(at.group, arrival.number, me);
}

// Closures ------------------------------------------------------------------------------------------------------------

template <class Types>
Ticket RankBase<Types>::run(CommunicatorKey, Rank as, std::function<void(Rank)> f, Location where) {
  if (world_.stopped()) return {};
  Queue& main = calling(0, where);
  Queue& queue = *queues_[as.queue()];
  auto closure = std::make_unique<Closure>();
  closure->number = ++queue.closures.issued;
  closure->f = std::move(f);
  closure->as = as;
  closure->where = where;
  self().issued(main, *closure);
  recorder_.closure_issued(queue.index);
  queue.closures.list.push_back(std::move(closure));
  ++live_closures_;
  if (!queue.fiber)
    world_.start_fiber(queue, [this, &queue] { serve(queue); });
  else if (queue.blocked.on == Blocked::On::work)
    world_.wake_for_work(queue);
  return {Ticket::Kind::closure, as.group(), as.queue(), queue.closures.issued};
}

/// Body of a queue's fiber: runs closures in order.
template <class Types>
void RankBase<Types>::serve(Queue& queue) {
  auto& closures = queue.closures;
  while (true) {
    if (closures.ended == closures.list.size()) {
      world_.block(queue, {.on = Blocked::On::work});
      continue;
    }
    Closure& closure = *closures.list[closures.ended];
    closures.current = &closure;
    self().begins(queue, closure);
    recorder_.closure_begins(queue.index);
    closure.f(closure.as);
    recorder_.closure_ends(queue.index);
    if (const auto bytes = recorder_.scratch(queue.index)) usage_error(scratch_left(bytes), closure.where);
    self().ends(queue, closure);
    closures.current = nullptr;
    ++closures.ended;
    --live_closures_;
    Queue& main = *queues_[0];
    if (main.blocked.on == Blocked::On::closure && main.blocked.which == queue.index &&
        closure.number >= main.blocked.number)
      world_.wake_after(main, closure);
  }
}

template <class Types>
void RankBase<Types>::wait_closure(Queue& main, const Ticket& ticket, Location where) {
  if (main.index != 0) usage_error(kClosureTicketOnMain, where);
  if (static_cast<std::size_t>(ticket.queue) >= queues_.size()) usage_error(kTicketOfAnotherRank, where);
  auto& closures = queues_[ticket.queue]->closures;
  if (ticket.number > closures.issued) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= closures.waited) return;
  if (!closures.has_ended(ticket.number))
    world_.block(main, {Blocked::On::closure, ticket.queue, ticket.number, where});
  self().waited_for(main, closures.numbered(ticket.number), where, recorder_.waits_for(0, ticket));
  for (; closures.waited < ticket.number; ++closures.waited, --closures.ended) {
    const auto done = std::move(closures.list.front());  // its slices may be released when the list is consistent
    closures.list.pop_front();
  }
}

// The program ---------------------------------------------------------------------------------------------------------

template <class Types>
void RankBase<Types>::play(const Program& program, Values& values) {
  check_backend();
  values = program(Rank(*this, 0, 0, rank_, world_.options().ranks));
  self().program_ended(*queues_[0]);
  check_finished();
}

/// Checks that the program waited for everything it started.
template <class Types>
void RankBase<Types>::check_finished() const {
  for (const auto& queue : queues_)
    if (queue->closures.waited < queue->closures.issued)
      usage_error(closure_not_waited_for(world_.queue_name(queue->index)), queue->closures.list.front()->where);
  each_endpoint([](const Endpoint& end) {
    if (const auto* batch = end.oldest()) usage_error(kTransfersNotWaitedFor, batch->where);
  });
}

template <class Types>
RankLedger RankBase<Types>::ledger() const {
  RankLedger ledger = recorder_.ledger();
  each_endpoint([&](const Endpoint& end) {
    end.each_peer([&](int peer, const Traffic& traffic) { add_traffic(ledger, {end.group, peer, traffic}); });
  });
  ledger.seconds = self().seconds(ledger);
  return ledger;
}

}  // namespace lockstep
