#include "common/runtime/trace/program_notes.hpp"

#include <exception>
#include <iterator>

namespace lockstep {

std::uint32_t group_name(std::span<const int> members) {
  std::uint32_t hash = 2166136261u;
  for (int member : members) hash = (hash ^ static_cast<std::uint32_t>(member)) * 16777619u;
  return hash;
}

ProgramNotes::Queue& ProgramNotes::at(int queue) {
  const auto index = static_cast<std::size_t>(queue);
  if (index >= queues_.size()) queues_.resize(index + 1);
  return queues_[index];
}

void ProgramNotes::batch_started(int queue, int group, std::span<const int> members, std::span<const Transfer> batch) {
  Batches& batches = batches_[{group, queue}];
  if (batches.all.empty()) batches.group = group_name(members);
  TransferBatch& started = batches.all.emplace_back();
  started.first = next(queue);
  for (const Transfer& transfer : batch) {
    TraceMessage message{.peer = members[static_cast<std::size_t>(transfer.peer)],
                         .sends = transfer.kind == Transfer::Kind::send,
                         .bytes = transfer.slice.bytes()};
    if (const Block* block = transfer.slice.block()) {
      message.block = block->id;
      message.offset = transfer.slice.offset_bytes();
    }
    if (machine_ && !machine_->levels.empty()) {
      const int level = machine_->level_between(rank_, message.peer);
      message.latency = machine_->alpha(level);
      message.seconds = message.latency + machine_->beta(level) * static_cast<double>(message.bytes);
    }
    started.messages.push_back(message);
  }
}

void ProgramNotes::transferred(int queue, int group, std::size_t event) {
  Batches& batches = batches_[{group, queue}];
  if (batches.transferred < batches.all.size()) batches.all[batches.transferred++].event = event;
}

std::uint64_t ProgramNotes::waits_for(int queue, const Ticket& ticket) {
  const std::uint64_t position = next(queue);
  if (ticket.kind == Ticket::Kind::batch) {
    Batches& batches = batches_[{ticket.group, queue}];
    while (batches.waited < batches.all.size() && batches.waited < ticket.number)
      batches.all[batches.waited++].last = position;
  } else {
    Queue& other = at(ticket.queue);
    while (other.waited < other.closures.size() && other.waited < ticket.number)
      other.closures[other.waited++].waited = position;
  }
  return position;
}

void ProgramNotes::closure_issued(int queue, double now) {
  const std::uint64_t position = next(0);
  at(queue).closures.push_back({.rank = rank_, .queue = queue, .issued = position, .given = now});
}

void ProgramNotes::closure_begins(int queue, double now) {
  Queue& q = at(queue);
  q.closures[q.begun].first = q.count + 1;
  q.closures[q.begun].begin = now;
}

void ProgramNotes::closure_ends(int queue, double now) {
  Queue& q = at(queue);
  q.closures[q.begun].last = q.count;
  q.closures[q.begun++].end = now;
}

void ProgramNotes::region_closed(int queue) {
  Queue& q = at(queue);
  Range range = q.open.back();
  range.last = q.count;
  range.region.cut = std::uncaught_exceptions() > 0;
  q.closed.push_back(range);
  q.open.pop_back();
}

ProgramNotes::Range ProgramNotes::region_lasted(int queue) {
  Queue& q = at(queue);
  const Range range = q.closed.front();
  q.closed.pop_front();
  return range;
}

void append(Trace& trace, Trace&& of_rank) {
  trace.events.insert(trace.events.end(), std::make_move_iterator(of_rank.events.begin()),
                      std::make_move_iterator(of_rank.events.end()));
  trace.closures.insert(trace.closures.end(), of_rank.closures.begin(), of_rank.closures.end());
  trace.blocks.insert(trace.blocks.end(), std::make_move_iterator(of_rank.blocks.begin()),
                      std::make_move_iterator(of_rank.blocks.end()));
  trace.races.insert(trace.races.end(), of_rank.races.begin(), of_rank.races.end());
}

void ProgramNotes::complete(std::vector<TraceEvent>& events, std::vector<TraceClosure>& closures) {
  for (auto& [key, batches] : batches_)
    for (TransferBatch& batch : batches.all) {
      if (batch.event >= events.size()) continue;  // the run ended before it was transferred
      TraceEvent& event = events[batch.event];
      event.what = TraceTransfer{batches.group, std::move(batch.messages)};
      event.first = batch.first;
      event.last = batch.last;
    }
  for (Queue& queue : queues_) closures.insert(closures.end(), queue.closures.begin(), queue.closures.end());
}

}  // namespace lockstep
