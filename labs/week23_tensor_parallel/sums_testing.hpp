// Shared by the tests of this week about messages and memory: sums of the right size at the right place and no others,
// memory that is not asked for, and sums that arithmetic hides.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>

#include "common/runtime/run.hpp"
#include "common/support/text/counted.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/regions.hpp"

namespace lockstep::week23 {

inline std::string messages(std::uint64_t count) { return fmt::format("{} message{}", count, count == 1 ? "" : "s"); }

/// Sums of `place` on every rank: how often, of how many bytes. "" when that is as expected.
inline std::string wrong_sums(const Outcome& outcome, const std::string& place, std::uint64_t count,
                              std::uint64_t bytes) {
  for (std::size_t rank = 0; rank < outcome.ledgers.size(); ++rank) {
    const RegionTotal seen = testing::visits_to(outcome.ledgers[rank], place);
    const std::uint64_t visits = seen.visits, total = seen.bytes, all = count * bytes;
    if (visits == 0 && count > 0)
      return fmt::format(
          "rank {} made 0 sums in a region \"{}\", expected {}: is the sum missing, or the region of that name around "
          "it (Scope scope = queue.region(name, bytes);)?",
          rank, place, count);
    if (visits != count || total != all)
      return fmt::format("rank {} made {} of {} in all at \"{}\", expected {} of {} bytes each{}", rank,
                         counted(visits, "sum"), counted(total, "byte"), place, count, bytes,
                         4 * total == all ? ". region() is given bytes, y.bytes(), and not elements" : "");
    if (seen.seconds == 0 && all > 0 && outcome.ledgers.size() > 1)  // a message takes some, virtual or not
      return fmt::format(
          "rank {} sent and received nothing inside the region \"{}\": it lasts as long as its Scope, which needs "
          "a name (Scope scope = …), and belongs to the queue that opens it, so a closure opens its own with the Rank "
          "that it gets",
          rank, place);
  }
  return "";
}

/// Compares all that the ranks have sent together with the most that sums of `bytes` may send: 2(p − 1) times `bytes`
/// for an all-reduce. "" when it is no more.
inline std::string more_than_sums(const Outcome& outcome, std::uint64_t bytes) {
  const std::uint64_t most = 2 * (outcome.ledgers.size() - 1) * bytes;
  std::uint64_t sent = 0;
  for (const RankLedger& ledger : outcome.ledgers) sent += ledger.traffic.bytes_sent;
  if (sent <= most) return "";
  return fmt::format(
      "the ranks sent {} bytes together; all-reduces of {} bytes are {}, 2(p − 1) times as many. What else is sent? "
      "After an all-reduce every rank has all of it: nothing is left to gather",
      sent, bytes, most);
}

/// Two sums of so many bytes, one at each place, and no more exchanges than two ring all-reduces have.
inline std::string not_two_sums(const Outcome& outcome, const std::string& forward, const std::string& backward,
                                std::uint64_t bytes) {
  for (const std::string& place : {forward, backward})
    if (std::string wrong = wrong_sums(outcome, place, 1, bytes); !wrong.empty()) return wrong;
  const std::uint64_t most = 4 * (outcome.ledgers.size() - 1);
  for (std::size_t rank = 0; rank < outcome.ledgers.size(); ++rank)
    if (outcome.ledgers[rank].batches > most)
      return fmt::format("rank {} made {}: two ring all-reduces have {}", rank,
                         counted(outcome.ledgers[rank].batches, "exchange"), most);
  return more_than_sums(outcome, 2 * bytes);
}

/// For a forward pass alone: its one sum has its own name, not the backward pass's.
inline std::string not_the_forward_sum(const Outcome& outcome, const std::string& forward, const std::string& backward,
                                       std::uint64_t bytes) {
  for (std::size_t rank = 0; rank < outcome.ledgers.size(); ++rank)
    if (testing::visits_to(outcome.ledgers[rank], backward).visits > 0)
      return fmt::format("rank {} opened the region \"{}\" in the forward pass: its sum is called \"{}\"", rank,
                         backward, forward);
  if (std::string wrong = wrong_sums(outcome, forward, 1, bytes); !wrong.empty()) return wrong;
  return more_than_sums(outcome, bytes);
}

/// Anything sent at all?
inline std::string wrong_traffic(const Outcome& outcome, const std::string& what) {
  for (std::size_t rank = 0; rank < outcome.ledgers.size(); ++rank)
    if (outcome.ledgers[rank].traffic.messages_sent > 0)
      return fmt::format("rank {} sent {}: {}", rank, messages(outcome.ledgers[rank].traffic.messages_sent), what);
  return "";
}

/// Bytes that a rank holds at this moment.
inline std::uint64_t live_bytes(Rank me) {
  std::uint64_t sum = 0;
  for (const std::uint64_t live : ledger_of(me).memory.live) sum += live;
  return sum;
}

/// Peak of all memory on every rank, against a run of `frugal`, which allocates what the contract allows and no more.
inline std::string more_memory_than(const Outcome& outcome, const Program& frugal, const std::string& allowed) {
  const Outcome baseline = run({.ranks = static_cast<int>(outcome.ledgers.size())}, frugal);
  baseline.check();
  for (std::size_t rank = 0; rank < outcome.ledgers.size(); ++rank) {
    const std::uint64_t peak = outcome.ledgers[rank].memory.peak_total, most = baseline.ledgers[rank].memory.peak_total;
    if (peak > most)
      return fmt::format("rank {} held {} bytes more at its peak than it needs: {}", rank, peak - most, allowed);
  }
  return "";
}

/// Seconds that main waits, and that messages are in flight on whichever queue, while `work` runs: to be returned by
/// the rank, for too_exposed.
template <class Work>
Values exposed_by(Rank me, const Work& work) {
  const auto seconds = [&] {
    const RankLedger ledger = ledger_of(me);
    double transferring = 0;
    for (const QueueTime& queue : ledger.queues) transferring += queue.transferring;
    return std::array{ledger.queues[0].waiting, transferring};
  };
  const auto before = seconds();
  work();
  const auto after = seconds();
  return {after[0] - before[0], after[1] - before[1]};
}

/// "" where main waits for less than `share` of the messages' time; `hidden` says what should overlap with what.
inline std::string too_exposed(const Outcome& outcome, double share, const std::string& hidden) {
  if (outcome.values.size() == 1) return "";
  for (std::size_t rank = 0; rank < outcome.values.size(); ++rank) {
    const double waiting = outcome.values[rank][0], transferring = outcome.values[rank][1];
    if (waiting > share * transferring)
      return fmt::format("rank {}: messages take {:.1f} µs, and main waits for {:.1f} µs of it. {}", rank,
                         transferring * 1e6, waiting * 1e6, hidden);
  }
  return "";
}

/// Virtual time on a machine where a product of `flop` takes as long as a ring all-reduce of `bytes`.
inline testing::CasePlan timed_plan(double flop, double bytes) {
  testing::CasePlan timed;
  timed.ranks = {2, 4, 8};
  timed.sizes = testing::sizes_of({1});
  timed.unit = "";
  timed.simulator_only = "overlap is measured in virtual time";
  timed.adjust = [=](const testing::Case& c, RunOptions& options) {
    options.phantom = true;
    options.perturb.reset();
    options.machine = Machine::uniform(1e-7, 1e-9, 1e-12);
    const double ring = 2 * (c.ranks - 1.0) / c.ranks * bytes * 1e-9;
    options.machine.peak_flop_per_second.fill(flop / ring);
  };
  return timed;
}

}  // namespace lockstep::week23
