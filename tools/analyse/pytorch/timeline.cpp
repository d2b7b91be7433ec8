#include "tools/analyse/pytorch/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "common/support/text/units.hpp"

namespace lockstep::pytorch {
namespace {

/// A turn of main: an operation, or (no operation) a time in which it has nothing to do while a collective is in
/// flight.
struct Turn {
  const Operation* operation = nullptr;
  Interval when{0, 0};
};

/// Longer than a queue takes to begin its next collective, in seconds.
constexpr double kNext = 5e-5;

/// When collectives begin, without those that had to wait for the one before them: main may have started these earlier.
std::vector<double> starts_of(const RankTrace& rank) {
  std::map<std::string, double> ends;  // of the last one of each group
  std::vector<double> starts;
  for (const Collective& c : rank.collectives) {
    double& end = ends.try_emplace(c.group, -INFINITY).first->second;
    if (c.when.begin > end + kNext) starts.push_back(c.when.begin);
    end = std::max(end, c.when.end);
  }
  return starts;
}

/// Operations, and between them times in collectives. A new turn begins where a collective does: main had to start it.
std::vector<Turn> turns_of(const RankTrace& rank) {
  std::vector<Interval> inside;
  std::vector<double> cuts;  // where a wait may end: a collective begins, or an operation
  for (const Collective& c : rank.collectives) inside.push_back(c.when), cuts.push_back(c.when.begin);
  for (const Operation& o : rank.operations) cuts.push_back(o.when.begin);
  std::sort(cuts.begin(), cuts.end());
  std::vector<Turn> turns;
  auto busy = rank.operations.begin();
  const auto end_of_busy = [&](double time) {  // of what computes then; `time` if nothing does
    while (busy != rank.operations.end() && busy->when.end <= time) ++busy;
    return busy != rank.operations.end() && busy->when.begin <= time ? busy->when.end : time;
  };
  for (const Interval& span : analysis::joined(std::move(inside)))
    for (double time = span.begin; time < span.end;) {
      if (const double free = end_of_busy(time); free > time) {
        time = free;
        continue;
      }
      const auto cut = std::upper_bound(cuts.begin(), cuts.end(), time);
      const double end = cut == cuts.end() ? span.end : std::min(*cut, span.end);
      turns.push_back({nullptr, {time, end}});
      time = end;
    }
  const std::vector<double> starts = starts_of(rank);
  for (const Operation& o : rank.operations) {
    double begin = o.when.begin;
    for (auto at = std::upper_bound(starts.begin(), starts.end(), begin); at != starts.end() && *at < o.when.end; ++at)
      turns.push_back({&o, {std::exchange(begin, *at), *at}});
    turns.push_back({&o, {begin, o.when.end}});
  }
  std::sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) { return a.when.begin < b.when.begin; });
  return turns;
}

/// The first turn that begins at `time` or later.
std::size_t first_from(const std::vector<Turn>& turns, double time) {
  return static_cast<std::size_t>(
      std::partition_point(turns.begin(), turns.end(), [&](const Turn& t) { return t.when.begin < time; }) -
      turns.begin());
}
/// The first turn that ends after `time`.
std::size_t ending_after(const std::vector<Turn>& turns, double time) {
  return static_cast<std::size_t>(
      std::partition_point(turns.begin(), turns.end(), [&](const Turn& t) { return t.when.end <= time; }) -
      turns.begin());
}
/// The turn without an operation in which a collective ends; turns.size(): main computes then.
std::size_t wait_for(const std::vector<Turn>& turns, const Collective& c) {
  const std::size_t after = first_from(turns, c.when.end);
  const bool waits = after > 0 && !turns[after - 1].operation && turns[after - 1].when.end >= c.when.end;
  return waits ? after - 1 : turns.size();
}

class Maker {
 public:
  Maker(const Matched& matched, Needed needed) : matched_(matched), needed_(needed) {
    for (const Meeting& m : matched.meetings)
      for (const auto& [i, c] : m.at) meeting_of_[c] = &m;
    for (const RankTrace& rank : matched.ranks) {
      begin_ = std::min(begin_, rank.operations.front().when.begin);
      if (!rank.collectives.empty()) begin_ = std::min(begin_, rank.collectives.front().when.begin);
      for (const Interval& step : rank.steps) begin_ = std::min(begin_, step.begin);
    }
  }

  Timeline make() {
    Trace& trace = made_.trace;
    const RankTrace& first = matched_.ranks[0];
    const std::string library = first.backend.empty() ? "collectives" : first.backend;
    trace.title = "PyTorch";
    trace.backend = "pytorch";
    trace.code = fmt::format("PyTorch, {} on {}", library, first.gpu ? "GPUs" : "the CPU");
    trace.queues = {"main"};
    std::map<std::string, int> queues;
    for (const RankTrace& rank : matched_.ranks)
      for (const Collective& c : rank.collectives) queues[c.group];
    for (auto& [group, queue] : queues) {
      queue = static_cast<int>(trace.queues.size());
      trace.queues.push_back(queues.size() == 1 || group.empty() ? library : library + " " + group);
    }
    if (!matched_.mismatches.empty()) {
      trace.verdict = "MISMATCH";
      for (const std::string& one : matched_.mismatches) trace.message += (trace.message.empty() ? "" : "\n") + one;
    }
    for (std::size_t i = 0; i < matched_.ranks.size(); ++i) add(matched_.ranks[i], queues);
    made_.of_event.resize(trace.events.size());
    made_.members.resize(trace.events.size());
    return std::move(made_);
  }

 private:
  /// Turn k of main has position 2k + 2; what main does before it, position 2k + 1.
  static std::uint64_t before(std::size_t turn) { return 2 * turn + 1; }
  static std::uint64_t at(std::size_t turn) { return 2 * turn + 2; }

  void add(const RankTrace& rank, const std::map<std::string, int>& queues) {
    const std::vector<Turn> turns = turns_of(rank);
    for (const Interval& step : rank.steps) {
      const std::size_t from = first_from(turns, step.begin), to = first_from(turns, step.end);
      event({.what = TraceRegion{.phase = true},
             .rank = rank.rank,
             .name = "step",
             .begin = step.begin,
             .end = step.end,
             .first = before(from),
             .last = before(to) - 1});
    }
    std::vector<bool> waits(turns.size());  // for a collective that ends in it
    for (const Collective& c : rank.collectives)
      if (const std::size_t wait = wait_for(turns, c); wait < turns.size()) waits[wait] = true;
    std::map<int, std::uint64_t> positions;  // by queue
    for (const Collective& c : rank.collectives)
      add(c, rank, turns, waits, queues.at(c.group), positions[queues.at(c.group)]);
    for (std::size_t k = 0; k < turns.size(); ++k) {
      const Turn& turn = turns[k];
      TraceEvent made{.what = TraceWait{},
                      .rank = rank.rank,
                      .name = "wait",
                      .begin = turn.when.begin,
                      .end = turn.when.end,
                      .first = at(k),
                      .last = at(k)};
      if (turn.operation) made.what = TraceCompute{}, made.name = turn.operation->name;
      event(std::move(made));
    }
  }

  void add(const Collective& c, const RankTrace& rank, const std::vector<Turn>& turns, const std::vector<bool>& waits,
           int queue, std::uint64_t& position) {
    const auto known = meeting_of_.find(&c);
    const Meeting* meeting = known == meeting_of_.end() ? nullptr : known->second;
    const double arrived = meeting ? std::clamp(meeting->last_arrival(), c.when.begin, c.when.end) : c.when.begin;
    const std::uint64_t first = position + 1;
    TraceTransfer arrive{.group = static_cast<std::uint32_t>(queue)}, move = arrive;
    if (meeting)
      star(*meeting, rank.rank, arrive, move);
    else
      move.messages = {{.peer = rank.rank, .sends = true}, {.peer = rank.rank}};  // it is in flight all the time
    const auto [begin, end] = c.when;
    event({TraceRegion{.bytes = static_cast<std::uint64_t>(c.bytes)}, rank.rank, queue, c.name, "", begin, end, first,
           position += 4});
    if (meeting)
      event({std::move(arrive), rank.rank, queue, c.name + ": ranks arrive", "", begin, arrived, first, first + 1});
    event({std::move(move), rank.rank, queue, c.name + ": " + size_of(c), "", arrived, end, first + 2, first + 3});
    made_.of_event.resize(made_.trace.events.size());
    made_.members.resize(made_.trace.events.size());
    made_.of_event.back() = &c;
    made_.members.back() = c.members ? c.members : meeting ? static_cast<int>(meeting->at.size()) : 0;
    closure(c, rank, turns, waits, queue, first);
  }

  /// Main gives the collective to its queue where it begins, and waits for it where it is idle until its end.
  void closure(const Collective& c, const RankTrace& rank, const std::vector<Turn>& turns,
               const std::vector<bool>& waits, int queue, std::uint64_t first) {
    const std::size_t given = ending_after(turns, c.when.begin), wait = wait_for(turns, c);
    TraceClosure closure{.rank = rank.rank, .queue = queue, .issued = before(given), .first = first, .last = first + 3};
    closure.end = c.when.end - begin_;
    mark(rank, turns, given);
    if (wait < turns.size()) {
      closure.waited = at(wait);
    } else if (const std::size_t needed = where_needed(c, rank, turns, waits); needed < turns.size()) {
      closure.waited = before(needed);
      mark(rank, turns, needed);
    }
    made_.trace.closures.push_back(closure);
  }

  /// The turn before which main needs a collective that ended while it computed.
  std::size_t where_needed(const Collective& c, const RankTrace& rank, const std::vector<Turn>& turns,
                           const std::vector<bool>& waits) const {
    const std::size_t next = first_from(turns, c.when.end);
    if (needed_ == Needed::at_once) return next;
    const auto step =
        std::find_if(rank.steps.begin(), rank.steps.end(), [&](const Interval& s) { return s.end > c.when.end; });
    const std::size_t end = step == rank.steps.end() ? turns.size() : first_from(turns, step->end);
    std::size_t needed = next;
    while (needed < end && !waits[needed]) ++needed;
    return needed == end && end > next ? end - 1 : needed;
  }

  /// A place between the host's time before a turn and the turn.
  void mark(const RankTrace& rank, const std::vector<Turn>& turns, std::size_t turn) {
    if (turn >= turns.size() || !marked_.insert({rank.rank, turn}).second) return;
    const double begin = turns[turn].when.begin;
    event({.what = TraceWait{},
           .rank = rank.rank,
           .name = "wait",
           .begin = begin,
           .end = begin,
           .first = before(turn),
           .last = before(turn)});
  }

  /// The last one hears of all, and answers them.
  void star(const Meeting& meeting, int rank, TraceTransfer& arrive, TraceTransfer& move) const {
    const auto last = std::max_element(meeting.at.begin(), meeting.at.end(),
                                       [](auto& a, auto& b) { return a.second->when.begin < b.second->when.begin; });
    const int hub = matched_.ranks[last->first].rank;
    for (const auto& [i, c] : meeting.at) {
      const int other = matched_.ranks[i].rank;
      if (other == hub || (rank != hub && rank != other)) continue;
      const int peer = rank == hub ? other : hub;
      arrive.messages.push_back({.peer = peer, .sends = rank != hub});
      move.messages.push_back({.peer = peer, .sends = rank == hub});
    }
  }

  static std::string size_of(const Collective& c) { return c.bytes > 0 ? format_bytes(c.bytes) : "?"; }

  void event(TraceEvent e) {
    e.begin -= begin_, e.end -= begin_;
    made_.trace.events.push_back(std::move(e));
  }

  const Matched& matched_;
  Needed needed_;
  Timeline made_;
  std::map<const Collective*, const Meeting*> meeting_of_;
  std::set<std::pair<int, std::size_t>> marked_;  // turns by rank
  double begin_ = INFINITY;                       // of the trace
};

}  // namespace

Timeline timeline(const Matched& matched, Needed needed) { return Maker(matched, needed).make(); }

}  // namespace lockstep::pytorch
