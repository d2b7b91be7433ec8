// The end of a run in RankCore: from the program's end until all ranks know the outcome.
#pragma once

#include <sstream>

#include "common/runtime/processes/rank_core.hpp"

namespace lockstep::processes {

template <BackendEndpoint Endpoint>
Values RankCore<Endpoint>::play(const Program& program) {
  Queue& main = *queues_[0];
  Values values;
  try {
    begin_program();
    main.set_doing({.kind = Doing::Kind::own_code});
    values = program(handle(0, 0));
    check_all_waited();
  } catch (const Unwind&) {
  } catch (...) {
    const Caught error = caught(main.last_call.load(std::memory_order_relaxed));
    job_.fail(error.verdict, fmt::format("rank {} on {}: {}", job_.rank, job_.host, error.what));
  }
  end_program();
  main.set_doing({.kind = Doing::Kind::finished});
  job_.working.fetch_sub(1);
  stop_queues();
  if (has_outliving_slices() && !job_.failed)
    job_.fail(Verdict::usage,
              fmt::format("rank {} on {}: {}", job_.rank, job_.host, slices_outlive_program(live_blocks_)));
  return values;
}

/// Keeps a rank whose slices outlive it, since they return their memory to it; it is freed at the end of a later run
/// once they are gone. Reachable from here, so that leak checkers see that it is intended.
template <class BackendRank>
void drop_or_keep(std::unique_ptr<BackendRank> rank) {
  static auto* const kept = new std::vector<std::unique_ptr<BackendRank>>;
  rank->shut_down();
  std::erase_if(*kept, [](const auto& each) { return !each->has_outliving_slices(); });
  if (rank->has_outliving_slices()) kept->push_back(std::move(rank));
}

template <BackendEndpoint Endpoint>
void RankCore<Endpoint>::check_all_waited() const {
  if (job_.failed) throw Unwind{};
  for (int queue = 1; queue < queue_count_; ++queue)
    if (const Location where = queues_[queue]->unwaited(); where.line() != 0)
      usage_error(closure_not_waited_for(queues_[queue]->name), where);
  std::lock_guard gate(job_.gate);
  for (Endpoint* each : all_endpoints_)
    if (const auto* batch = each->unwaited()) usage_error(kTransfersNotWaitedFor, batch->where);
}

template <BackendEndpoint Endpoint>
void RankCore<Endpoint>::stop_queues() {
  for (int queue = 1; queue < queue_count_; ++queue) queues_[queue]->stop();
}

template <BackendEndpoint Endpoint>
void RankCore<Endpoint>::drop_closures() {
  for (int queue = 1; queue < queue_count_; ++queue) queues_[queue]->clear();
}

template <BackendEndpoint Endpoint>
bool RankCore<Endpoint>::agree_on_failure(const char* what) {
  const Failure mine = job_.failure();
  Failure first;
  for (const std::string& bytes : gather(what, mine.origin == job_.rank ? to_bytes(mine) : "", true)) {
    if (bytes.empty()) continue;
    Failure failure;
    from_bytes(bytes, failure);
    if (first.origin < 0 || failure.when < first.when) first = failure;
  }
  if (first.origin < 0) return false;
  job_.settle(first);
  return true;
}

template <BackendEndpoint Endpoint>
void RankCore<Endpoint>::find_unread() {
  std::string counts;  // "endpoint peer messages": this rank's sends
  {
    std::lock_guard gate(job_.gate);
    for (const Endpoint* each : all_endpoints_)
      for (std::size_t member = 0; member < each->members().size(); ++member)
        if (const std::uint64_t messages = each->traffic()[member].messages_sent; messages > 0)
          counts += fmt::format("{} {} {}\n", each->id(), each->members()[member], messages);
  }
  std::vector<std::map<std::uint64_t, std::uint64_t>> sent;  // messages to this rank, by sender and endpoint
  for (const std::string& text : gather("counts", counts, true)) {
    auto& of_sender = sent.emplace_back();
    std::istringstream in(text);
    std::uint64_t id = 0, messages = 0;
    for (int peer = 0; in >> id >> peer >> messages;)
      if (peer == job_.rank) of_sender[id] += messages;
  }
  std::uint64_t unread = 0;
  std::string first;
  std::lock_guard gate(job_.gate);
  for (Endpoint* each : all_endpoints_)
    for (std::size_t member = 0; member < each->members().size(); ++member) {
      const int peer = each->members()[member];
      const std::uint64_t received = each->traffic()[member].messages_received, expected = sent[peer][each->id()];
      if (received > expected)
        return job_.fail(Verdict::deadlock,
                         fmt::format("DEADLOCK: rank {} waits for rank {}, which has ended: it receives {} messages "
                                     "that were never sent",
                                     job_.rank, peer, received - expected));
      unread += expected - received;
      if (expected == received || !first.empty()) continue;
      first = each->take_unread(static_cast<int>(member));
      if (first.empty()) first = fmt::format("rank {} sends", peer);
    }
  if (unread > 0)
    job_.fail(Verdict::unread,
              fmt::format("UNREAD: {}, to rank {}, which ended without receiving it{}.", first, job_.rank,
                          unread > 1 ? fmt::format(" (and {} more messages like it)", unread - 1) : ""));
}

template <BackendEndpoint Endpoint>
RankLedger RankCore<Endpoint>::ledger_without_seconds() const {
  RankLedger ledger = job_.record([](Recorder& recorder) { return recorder.ledger(); });
  std::lock_guard gate(job_.gate);
  for (const Endpoint* each : all_endpoints_)
    for (std::size_t member = 0; member < each->members().size(); ++member)
      add_traffic(ledger, {each->group(), each->members()[member], each->traffic()[member]});
  return ledger;
}

template <BackendEndpoint Endpoint>
Outcome RankCore<Endpoint>::outcome(const Values& values) {
  const Failure failure = job_.failure();
  Outcome outcome{.verdict = failure.verdict, .message = failure.message, .failed_rank = failure.rank};
  for (const std::string& bytes : gather("results", to_bytes(values, ledger()), false)) {
    from_bytes(bytes, outcome.values.emplace_back(), outcome.ledgers.emplace_back());
    outcome.seconds = std::max(outcome.seconds, outcome.ledgers.back().seconds);
    outcome.messages += outcome.ledgers.back().traffic.messages_sent;
  }
  outcome.wall_seconds = outcome.seconds * job_.clock.scale();
  if (!job_.options.trace) return outcome;
  std::vector<std::string> names;
  for (int queue = 0; queue < queue_count_; ++queue) names.push_back(queues_[queue]->name);
  const Trace mine = job_.record([](Recorder& recorder) { return recorder.take_trace(); });
  for (const std::string& bytes : gather("traces", pack(mine, names), false))
    if (job_.rank == 0) unpack_into(outcome.trace, bytes);
  if (job_.rank == 0) note_end(outcome);
  return outcome;
}

}  // namespace lockstep::processes
