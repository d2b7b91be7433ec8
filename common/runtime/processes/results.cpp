#include "common/runtime/processes/results.hpp"

#include <algorithm>

#include "common/runtime/processes/bytes.hpp"

namespace lockstep::processes {

namespace {

void put(Writer& out, const RankLedger& ledger) {
  out.put(ledger.traffic);
  out.put(ledger.batches);
  out.each(ledger.peers, [&](const PeerTraffic& peer) { out.put(peer); });
  out.each(ledger.regions, [&](const RegionTotal& region) {
    out.put(region.name);
    out.put(region.queue);
    out.put(region.visits);
    out.put(region.bytes);
    out.put(region.phase);
    out.put(region.batches);
    out.put(region.traffic);
    out.put(region.seconds);
  });
  out.put(ledger.flop);
  out.put(ledger.reads);
  out.put(ledger.memory);
  out.each(ledger.queues, [&](const QueueTime& time) {
    out.put(time.queue);
    out.put(time.busy);
    out.put(time.waiting);
    out.put(time.transferring);
    out.put(time.end);
  });
  out.put(ledger.seconds);
}

void get(Reader& in, RankLedger& ledger) {
  in.get(ledger.traffic);
  in.get(ledger.batches);
  in.each(ledger.peers, [&](PeerTraffic& peer) { in.get(peer); });
  in.each(ledger.regions, [&](RegionTotal& region) {
    in.get(region.name);
    in.get(region.queue);
    in.get(region.visits);
    in.get(region.bytes);
    in.get(region.phase);
    in.get(region.batches);
    in.get(region.traffic);
    in.get(region.seconds);
  });
  in.get(ledger.flop);
  in.get(ledger.reads);
  in.get(ledger.memory);
  in.each(ledger.queues, [&](QueueTime& time) {
    in.get(time.queue);
    in.get(time.busy);
    in.get(time.waiting);
    in.get(time.transferring);
    in.get(time.end);
  });
  in.get(ledger.seconds);
}

void put(Writer& out, const Values& values) {
  out.each(values, [&](double value) { out.put(value); });
}
void get(Reader& in, Values& values) {
  in.each(values, [&](double& value) { in.get(value); });
}

}  // namespace

std::string pack(const Values& values, const RankLedger& ledger) {
  Writer out;
  put(out, values);
  put(out, ledger);
  return out.bytes;
}

void unpack(const std::string& bytes, Values& values, RankLedger& ledger) {
  Reader in(bytes);
  get(in, values);
  get(in, ledger);
}

std::string pack(const Trace& trace, const std::vector<std::string>& queues) {
  Writer out;
  out.each(queues, [&](const std::string& name) { out.put(name); });
  out.each(trace.closures, [&](const TraceClosure& closure) { out.put(closure); });
  out.each(trace.events, [&](const TraceEvent& event) {
    out.put(event.kind);
    out.put(event.rank);
    out.put(event.queue);
    out.put(event.name);
    out.put(event.where);
    out.put(event.begin);
    out.put(event.end);
    out.put(event.first);
    out.put(event.last);
    out.put(event.own);
    out.put(event.launch);
    out.put(event.phase);
    out.put(event.group);
    out.each(event.messages, [&](const TraceMessage& message) { out.put(message); });
  });
  return out.bytes;
}

void unpack_into(Trace& trace, const std::string& bytes) {
  Reader in(bytes);
  std::vector<std::string> queues;
  in.each(queues, [&](std::string& name) { in.get(name); });
  std::vector<int> index;
  for (const std::string& name : queues) {
    const auto known = std::find(trace.queues.begin(), trace.queues.end(), name);
    index.push_back(static_cast<int>(known - trace.queues.begin()));
    if (known == trace.queues.end()) trace.queues.push_back(name);
  }
  Trace mine;
  in.each(mine.closures, [&](TraceClosure& closure) {
    in.get(closure);
    closure.queue = index[closure.queue];
  });
  in.each(mine.events, [&](TraceEvent& event) {
    in.get(event.kind);
    in.get(event.rank);
    in.get(event.queue);
    in.get(event.name);
    in.get(event.where);
    in.get(event.begin);
    in.get(event.end);
    in.get(event.first);
    in.get(event.last);
    in.get(event.own);
    in.get(event.launch);
    in.get(event.phase);
    in.get(event.group);
    in.each(event.messages, [&](TraceMessage& message) { in.get(message); });
    event.queue = index[event.queue];
  });
  append(trace, std::move(mine));
}

std::string pack(const Failure& failure) {
  Writer out;
  out.put(failure.verdict);
  out.put(failure.rank);
  out.put(failure.origin);
  out.put(failure.when);
  out.put(failure.message);
  return out.bytes;
}

Failure unpack_failure(const std::string& bytes) {
  Reader in(bytes);
  Failure failure;
  in.get(failure.verdict);
  in.get(failure.rank);
  in.get(failure.origin);
  in.get(failure.when);
  in.get(failure.message);
  return failure;
}

std::string pack(const Outcome& outcome) {
  Writer out;
  out.put(outcome.verdict);
  out.put(outcome.message);
  out.put(outcome.failed_rank);
  out.each(outcome.values, [&](const Values& values) { put(out, values); });
  out.each(outcome.ledgers, [&](const RankLedger& ledger) { put(out, ledger); });
  out.put(outcome.seconds);
  out.put(outcome.wall_seconds);
  out.put(outcome.messages);
  return out.bytes;
}

Outcome unpack_outcome(const std::string& bytes) {
  Reader in(bytes);
  Outcome outcome;
  in.get(outcome.verdict);
  in.get(outcome.message);
  in.get(outcome.failed_rank);
  in.each(outcome.values, [&](Values& values) { get(in, values); });
  in.each(outcome.ledgers, [&](RankLedger& ledger) { get(in, ledger); });
  in.get(outcome.seconds);
  in.get(outcome.wall_seconds);
  in.get(outcome.messages);
  return outcome;
}

}  // namespace lockstep::processes
