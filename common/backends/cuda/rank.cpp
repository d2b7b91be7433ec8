// The verbs of one rank that involve other ranks or queues, messages and closures, on streams.
#include <algorithm>

#include "common/backends/cuda/world.hpp"

namespace lockstep::cuda {

// Messages ------------------------------------------------------------------------------------------------------------

Ticket CudaRank::start(CommunicatorKey at, std::span<const Transfer> transfers, Location where) {
  if (world_.stopped()) return {};
  Queue& queue = calling(at.queue, where);
  Endpoint& endpoint = endpoint_at(at.group, at.queue);
  auto batch = std::make_unique<TransferBatch>();
  batch->endpoint = &endpoint;
  batch->number = ++endpoint.started;
  batch->transfers.assign(transfers.begin(), transfers.end());
  batch->issued.resize(transfers.size());
  batch->pending = transfers.size();
  batch->posted = here(queue);
  batch->follows_wait = endpoint.waited + 1 == batch->number;
  batch->where = where;
  batch->collective = recorder_.batch_started(at.queue, at.group, world_.groups().members(at.group), transfers);
  endpoint.batches.push_back(std::move(batch));
  const Ticket ticket{Ticket::Kind::batch, at.group, at.queue, endpoint.started};
  world_.post(endpoint.batches.back().get());
  return ticket;
}

/// Makes the host wait until the batch is issued to the GPU, and the stream until the GPU has done it.
void CudaRank::wait_batch(Queue& queue, const Ticket& ticket, Location where) {
  if (ticket.queue != queue.index)
    usage_error(waited_on_wrong_queue(world_.queue_name(ticket.queue), world_.queue_name(queue.index)), where);
  Endpoint& endpoint = endpoint_at(ticket.group, queue.index);
  if (ticket.number > endpoint.started) usage_error(kTicketOfAnotherRank, where);
  if (ticket.number <= endpoint.waited) return;
  if (endpoint.issued < ticket.number) {
    endpoint.waiter = &queue;
    endpoint.waiter_number = ticket.number;
    world_.block(queue, {Blocked::On::batch, ticket.group, ticket.number, where});
  }
  const Event before = here(queue);
  end_stretch(queue, before);
  const TransferBatch& last = *endpoint.batch(ticket.number);  // complete after all before it
  if (last.received) queue.stream.wait(last.received);
  for (const Event& sent : last.sent) queue.stream.wait(sent);
  waited(queue, before, where, recorder_.waits_for(queue.index, ticket));
  for (; endpoint.waited < ticket.number; ++endpoint.waited) {
    for (const Transfer& transfer : endpoint.batches.front()->transfers) use(queue, transfer.slice);
    const auto done = std::move(endpoint.batches.front());  // released once the endpoint is consistent
    endpoint.batches.pop_front();
  }
}

// Closures ------------------------------------------------------------------------------------------------------------

namespace {
void join(Progress& known, const Progress& other) {
  if (known.size() < other.size()) known.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) known[i] = std::max(known[i], other[i]);
}
}  // namespace

void CudaRank::issued(Queue& main, Closure& closure) {
  closure.issued = here(main);
  closure.at_issue = main.known;
}

void CudaRank::begins(Queue& queue, Closure& closure) {
  queue.stream.wait(closure.issued);
  queue.last = {};
  join(queue.known, closure.at_issue);
}

void CudaRank::ends(Queue& queue, Closure& closure) {
  closure.finished = here(queue);
  closure.at_finish = queue.known;
  end_stretch(queue, closure.finished);
}

void CudaRank::waited_for(Queue& main, Closure& closure, Location where, std::uint64_t position) {
  const Event before = here(main);
  end_stretch(main, before);
  main.stream.wait(closure.finished);
  join(main.known, closure.at_finish);
  waited(main, before, where, position);
}

void CudaRank::program_ended(Queue& main) {
  ended_ = here(main);
  end_stretch(main, ended_);
}

}  // namespace lockstep::cuda
