// RankCore's line of the wait table.
#pragma once

#include "common/runtime/processes/rank_core.hpp"

namespace lockstep::processes {

template <BackendEndpoint Endpoint>
std::string RankCore<Endpoint>::format_outstanding(const Endpoint& endpoint, const Outstanding& outstanding) {
  return in_batch(outstanding.number, endpoint.group(), endpoint.members().size(), outstanding.region) + ": " +
         (outstanding.words.empty() ? "nothing is outstanding" : outstanding.words);
}

template <BackendEndpoint Endpoint>
Row RankCore<Endpoint>::describe_queue(const Queue& queue) const {
  const Doing doing = queue.doing();
  const Location called = queue.last_call.load(std::memory_order_relaxed);
  Row row;
  row.state = Row::State::working;
  switch (doing.kind) {
    case Doing::Kind::nothing: row.words = "has nothing to do"; break;
    case Doing::Kind::own_code:
      row.words = called.line() == 0 ? "runs code of its own since it began"
                                     : at("runs code of its own since its call", called);
      break;
    case Doing::Kind::computes: row.words = at(fmt::format("computes {}", doing.operation), doing.where); break;
    case Doing::Kind::finished:
      row.state = Row::State::finished;
      row.words = "has ended";
      break;
    case Doing::Kind::sets_up:
      row.state = Row::State::waiting;
      row.words = at("waits", doing.where) + fmt::format(": for the others to call {}", doing.operation);
      break;
    case Doing::Kind::waits_for_closure:
      if (!queues_[doing.queue]->has_ended(doing.number)) row.state = Row::State::waiting;
      row.words =
          at("waits", doing.where) + fmt::format(": for its closure on queue \"{}\"", queues_[doing.queue]->name);
      break;
    case Doing::Kind::waits_for_batch: {
      Endpoint& on = endpoint(doing.group, queue.index);
      if (!on.ready(doing.number)) row.state = Row::State::waiting;
      row.words = at("waits", doing.where);
      if (queue.index != 0)
        row.words += fmt::format(" on queue \"{}\", in the closure run at {}", queue.name, describe(queue.running()));
      const Outstanding outstanding = on.outstanding();
      row.words += format_outstanding(on, outstanding);
      row.peer = outstanding.peer;
      break;
    }
    case Doing::Kind::waits_for_gpu:
      row.words = doing.where.line() == 0 ? fmt::format("waits at {} for the GPU", doing.operation)
                                          : at("waits", doing.where) + " for the GPU";
      describe_gpu(row);
      break;
    case Doing::Kind::waits_for_memory:
      row.words =
          at("waits", doing.where) + fmt::format(" for the GPU, which is full, to free memory ({} bytes for {})",
                                                 doing.bytes, to_string(doing.category));
      describe_gpu(row);
      break;
  }
  return row;
}

template <BackendEndpoint Endpoint>
Row RankCore<Endpoint>::describe_queues() const {
  const Doing doing = queues_[0]->doing();
  Row row = describe_queue(*queues_[0]);
  for (int queue = 1; queue < queue_count_; ++queue) {
    const Row other = describe_queue(*queues_[queue]);
    if (queues_[queue]->running().line() == 0) continue;
    row.words += fmt::format("; queue \"{}\" {}", queues_[queue]->name, other.words);
    if (other.state == Row::State::working) row.state = Row::State::working;
    if (doing.kind == Doing::Kind::waits_for_closure && doing.queue == queue) row.peer = other.peer;
  }
  row.activity = job_.activity.load();
  row.idle_seconds = job_.idle_seconds();
  return row;
}

}  // namespace lockstep::processes
