// Serialisation (bytes.hpp) of the data that travels to the process that prints the results, and back to all: ledgers,
// outcomes, traces and failures.
#pragma once

#include <concepts>
#include <string>
#include <type_traits>

#include "common/runtime/processes/bytes.hpp"
#include "common/runtime/processes/failure.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::processes {

template <class T, class Whole>
concept Of = std::same_as<std::remove_const_t<T>, Whole>;

template <class Io>
void fields(Io& io, Of<RegionTotal> auto& region) {
  io(region.name, region.queue, region.visits, region.bytes, region.phase, region.batches, region.traffic,
     region.seconds);
}

template <class Io>
void fields(Io& io, Of<QueueTime> auto& time) {
  io(time.queue, time.busy, time.waiting, time.transferring, time.end);
}

template <class Io>
void fields(Io& io, Of<RankLedger> auto& ledger) {
  io(ledger.traffic, ledger.batches, ledger.peers, ledger.regions, ledger.flop, ledger.reads, ledger.memory,
     ledger.queues, ledger.seconds);
}

template <class Io>
void fields(Io& io, Of<Failure> auto& failure) {
  io(failure.verdict, failure.rank, failure.origin, failure.when, failure.message);
}

template <class Io>
void fields(Io& io, Of<TraceEvent> auto& event) {
  io(event.what, event.rank, event.queue, event.name, event.where, event.begin, event.end, event.first, event.last);
}

template <class Io>
void fields(Io& io, Of<TraceBlock> auto& block) {
  io(block.rank, block.id, block.category, block.bytes, block.begin, block.end, block.uploaded);
}

/// All of an outcome except the trace.
template <class Io>
void fields(Io& io, Of<Outcome> auto& outcome) {
  io(outcome.verdict, outcome.message, outcome.failed_rank, outcome.values, outcome.ledgers, outcome.seconds,
     outcome.wall_seconds, outcome.messages);
}

std::string pack(const Trace& trace, const std::vector<std::string>& queues);
/// Adds a rank's events and closures. Queues are matched by name, since ranks may have made them in different orders.
void unpack_into(Trace& trace, const std::string& bytes);

}  // namespace lockstep::processes
