// RankCore's verbs: messages, closures, memory and set-up.
#pragma once

#include <algorithm>

#include "common/runtime/processes/rank_core.hpp"

namespace lockstep::processes {

template <BackendEndpoint Endpoint>
RankCore<Endpoint>::RankCore(std::unique_ptr<Job> job) : owned_job_(std::move(job)) {
  std::vector<int> everyone(job_.ranks);
  for (int rank = 0; rank < job_.ranks; ++rank) everyone[rank] = rank;
  make_group(everyone);
  groups_[0]->rank = job_.rank;
  queue_named("main");
  job_.working = 1;
  job_.note_activity();
}

// Checking the caller -------------------------------------------------------------------------------------------------

template <BackendEndpoint Endpoint>
int RankCore<Endpoint>::running_queue() const {
  if (std::this_thread::get_id() == main_thread_) return inline_queue_;
  for (int queue = 1; queue < queue_count_; ++queue)
    if (queues_[queue]->is_mine()) return queue;
  return -1;
}

template <BackendEndpoint Endpoint>
auto RankCore<Endpoint>::enter(int index, Location where) const -> Queue* {
  // A destructor's verb during an exception does nothing: it could wait forever, or throw a second one.
  if (std::uncaught_exceptions() > 0) return nullptr;
  if (job_.failed.load(std::memory_order_acquire)) throw Unwind{};
  const int running = running_queue();
  if (running == index) {
    queues_[index]->last_call.store(where, std::memory_order_relaxed);
    return queues_[index].get();
  }
  if (index != 0) usage_error(queue_outside_closure(queues_[index]->name), where);
  if (running > 0) usage_error(main_inside_closure(queues_[running]->name), where);
  usage_error("a Rank was used on a thread that runs none of its queues", where);
}

template <BackendEndpoint Endpoint>
Group& RankCore<Endpoint>::group(int index, Location where) const {
  if (index < 0 || groups_[index]->rank < 0) usage_error(not_in_group(job_.rank), where);
  return *groups_[index];
}

template <BackendEndpoint Endpoint>
Rank RankCore<Endpoint>::handle(int index, int queue) {
  const Group& of = group(index);
  return Rank(*this, index, queue, of.rank, static_cast<int>(of.members.size()));
}

// Messages ------------------------------------------------------------------------------------------------------------

template <BackendEndpoint Endpoint>
Ticket RankCore<Endpoint>::start(CommunicatorKey at, std::span<const Transfer> transfers, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return {};
  const auto issued = queue->here();
  std::lock_guard gate(job_.gate);
  Endpoint& on = endpoint(at.group, at.queue);
  const char* region = job_.record(
      [&](Recorder& recorder) { return recorder.batch_started(at.queue, at.group, on.members(), transfers); });
  return {Ticket::Kind::batch, at.group, at.queue, on.start(transfers, where, region, issued)};
}

template <BackendEndpoint Endpoint>
void RankCore<Endpoint>::wait(CommunicatorKey at, Ticket ticket, Location where) {
  Queue* queue = enter(at.queue, where);
  if (!queue) return;
  if (ticket.kind != Ticket::Kind::batch) return wait_for_closure(*queue, ticket, where);
  if (ticket.queue != at.queue) usage_error(waited_on_wrong_queue(queues_[ticket.queue]->name, queue->name), where);
  Endpoint* waited = nullptr;
  {
    std::lock_guard gate(job_.gate);
    waited = &endpoint(ticket.group, ticket.queue);
  }
  if (ticket.number > waited->started()) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number > waited->released()) wait_for_batch(*queue, *waited, ticket, where);
}

// Closures ------------------------------------------------------------------------------------------------------------

template <BackendEndpoint Endpoint>
Ticket RankCore<Endpoint>::run(CommunicatorKey, Rank as, std::function<void(Rank)> f, Location where) {
  Queue* main = enter(0, where);
  if (!main) return {};
  Queue& queue = *queues_[as.queue()];
  auto issued = main->here();
  job_.record([&](Recorder& recorder) { recorder.closure_issued(as.queue(), queue.time_of_closures()); });
  if (!queue.has_thread()) inline_queue_ = as.queue();
  const std::uint64_t number = queue.push(std::move(f), as, where, std::move(issued));
  inline_queue_ = 0;
  return {Ticket::Kind::closure, as.group(), as.queue(), number};
}

template <BackendEndpoint Endpoint>
void RankCore<Endpoint>::wait_for_closure(Queue& main, Ticket ticket, Location where) {
  if (main.index != 0) usage_error(kClosureTicketOnMain, where);
  if (ticket.queue >= queue_count_) usage_error(kTicketOfAnotherRank, where);
  Queue& queue = *queues_[ticket.queue];
  if (ticket.number > queue.pushed()) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= queue.released()) return;
  const double began = job_.now();
  main.set_doing(
      {.kind = Doing::Kind::waits_for_closure, .where = where, .queue = ticket.queue, .number = ticket.number});
  job_.working.fetch_sub(1);
  const bool ended = queue.wait_for(ticket.number);
  job_.working.fetch_add(1);
  main.set_doing({.kind = Doing::Kind::own_code, .where = where});
  if (!ended) return unwind();
  go_on_after(queue, ticket, began, where);
  queue.release(ticket.number);  // only now: memory is reusable after the wait
}

// Memory --------------------------------------------------------------------------------------------------------------

template <BackendEndpoint Endpoint>
Slice RankCore<Endpoint>::allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category,
                                   Location where) {
  (void)enter(at.queue, where);
  auto block = new_block(at, count, dtype, category, *this, ++blocks_, where);
  block->threads = true;
  block->data = block->bytes > 0 ? take_memory(*queues_[at.queue], block->bytes, category, where) : nullptr;
  ++live_blocks_;
  job_.record([&](Recorder& recorder) {
    recorder.allocated(at.queue, category, block->bytes);
    if (memory_has_times()) recorder.block_made(*block, job_.now());
  });
  return Slice(*block.release());
}

template <BackendEndpoint Endpoint>
void RankCore<Endpoint>::release(Block& block) {
  job_.record([&](Recorder& recorder) {
    recorder.released(block.queue, block.category, block.bytes);
    if (recorder.knows(block)) recorder.block_released(block, job_.now());
  });
  if (block.data) give_memory(block);
  --live_blocks_;
  delete &block;
}

// Set-up: collective over a group; the k-th calls of all members are compared -----------------------------------------

template <BackendEndpoint Endpoint>
Rank RankCore<Endpoint>::stream(CommunicatorKey at, std::string_view name, Location where) {
  if (!enter(at.queue, where)) return {};
  if (at.queue != 0) usage_error(not_on_main("stream"), where);
  Group& of = group(at.group, where);
  agree(of, stream_call(name, where), where);
  const int queue = queue_named(name);
  if (!has_endpoint(at.group, queue)) add_endpoint(connect(of, queue, where));
  return handle(at.group, queue);
}

template <BackendEndpoint Endpoint>
Rank RankCore<Endpoint>::split(CommunicatorKey at, int color, int key, Location where) {
  if (!enter(at.queue, where)) return {};
  if (at.queue != 0) usage_error(not_on_main("split"), where);
  Group& of = group(at.group, where);
  const std::vector<SetUp> calls = agree(of, {.is_split = true, .color = color, .key = key}, where);
  const int made = groups_of(of, calls);
  auto fresh = connect_split(of, calls[of.rank], made < 0 ? nullptr : groups_[made].get(), where);
  if (made < 0) return Rank(*this, -1, 0, -1, 0);
  if (!has_endpoint(made, 0)) add_endpoint(std::move(fresh));
  return handle(made, 0);
}

template <BackendEndpoint Endpoint>
std::vector<SetUp> RankCore<Endpoint>::agree(Group& of, SetUp mine, Location where) {
  copy_text(mine.where, sizeof mine.where, describe(where));
  {
    std::lock_guard gate(job_.gate);
    mine.call = ++of.set_ups;
  }
  const std::vector<SetUp> calls = all_calls(of, mine, where);
  compare(calls, of.members);
  return calls;
}

/// Makes the groups that these split calls define; returns this rank's group, or −1.
template <BackendEndpoint Endpoint>
int RankCore<Endpoint>::groups_of(const Group& parent, const std::vector<SetUp>& calls) {
  int mine = -1;
  for (const auto& [color, ranks] : by_color(calls)) {
    std::vector<int> members;
    for (int rank : ranks) members.push_back(parent.members[rank]);
    const int index = make_group(members);
    if (color != calls[parent.rank].color) continue;
    mine = index;
    groups_[index]->rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), parent.rank) - ranks.begin());
  }
  return mine;
}

template <BackendEndpoint Endpoint>
int RankCore<Endpoint>::make_group(const std::vector<int>& members) {
  std::lock_guard gate(job_.gate);
  const auto [known, fresh] = group_of_members_.try_emplace(members, static_cast<int>(groups_.size()));
  if (fresh) groups_.push_back(std::make_unique<Group>(Group{.index = known->second, .members = members}));
  return known->second;
}

template <BackendEndpoint Endpoint>
int RankCore<Endpoint>::queue_named(std::string_view name) {
  const int count = queue_count_;
  for (int queue = 0; queue < count; ++queue)
    if (queues_[queue]->name == name) return queue;
  if (count == kQueues) usage_error(fmt::format("a rank has at most {} queues", kQueues));
  std::lock_guard gate(job_.gate);  // another thread reads the queues for the wait table
  queues_[count] = std::make_unique<Queue>(job_, count, std::string(name));
  job_.record([&](Recorder& recorder) { recorder.add_queue(std::string(name)); });
  if (count != 0 && closures_have_threads()) queues_[count]->begin_thread();
  queue_count_ = count + 1;
  return count;
}

template <BackendEndpoint Endpoint>
bool RankCore<Endpoint>::has_endpoint(int group, int queue) const {
  const auto& of_queue = endpoints_[queue];
  return static_cast<std::size_t>(group) < of_queue.size() && of_queue[group];
}

template <BackendEndpoint Endpoint>
void RankCore<Endpoint>::add_endpoint(std::unique_ptr<Endpoint> fresh) {
  std::lock_guard gate(job_.gate);
  auto& of_queue = endpoints_[fresh->queue()];
  const auto group = static_cast<std::size_t>(fresh->group());
  if (group >= of_queue.size()) of_queue.resize(group + 1);
  all_endpoints_.push_back(fresh.get());
  of_queue[group] = std::move(fresh);
}

}  // namespace lockstep::processes
