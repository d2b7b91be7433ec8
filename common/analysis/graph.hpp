// A run as a graph: what each queue of each rank did, in its order, and what waited for what. Made from a trace, and
// replayed by replay.hpp with some of its costs taken away.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/runtime/trace/trace.hpp"

namespace lockstep::analysis {

/// Arithmetic, or time of a queue that the trace has nothing to say of: the host's, between two operations.
struct Activity {
  enum class Kind : unsigned char { arithmetic, host, data };  // data: the host's in a region called "data"
  Kind kind = Kind::arithmetic;
  int event = -1;      // of the trace
  int lane = 0;        // that does it
  int step = 0;        // from 0
  double seconds = 0;  // alone
  double launch = 0;   // of them: the price of an operation that does nothing
};

/// From one batch to another. −1: that end is not part of the graph.
struct Message {
  int sender = -1;
  int receiver = -1;
  bool eager = false;  // leaves before its receive is posted
  double latency = 0;  // of a modelled machine: see TraceMessage
  double seconds = 0;
};

struct Batch {
  int event = -1;
  int lane = 0;
  int before = -1;            // the batch before it on the same (group, queue)
  std::vector<int> messages;  // that it sends or receives
  double delay = 0;           // seconds that it took longer than its messages' prices: ports were busy, or all of it
                              // where prices are not known
};

struct Closure {
  int lane = 0;
};

/// One thing that a lane does.
struct Action {
  enum class Kind : unsigned char { work, start, await_batch, give, await_closure, begin_closure, end_closure };
  Kind kind = Kind::work;
  int index = 0;  // of the work, batch or closure
};

/// A queue of a rank.
struct Lane {
  int rank = 0;
  int queue = 0;
  std::vector<Action> program;
};

struct Graph {
  bool one_engine = false;  // a rank's arithmetic beside main's lengthens main's: modelled machines
  int ranks = 0;
  int steps = 1;            // that it holds
  int first_step = 0;       // of the run's, from 0
  int steps_in_run = 0;     // 0: the run has no region of that name, and all of it counts as one step
  double recorded = 0;      // seconds of these steps in the trace (phase_seconds)
  std::vector<Lane> lanes;  // by rank, then queue; main first
  std::vector<Activity> works;
  std::vector<Message> messages;
  std::vector<Batch> batches;
  std::vector<Closure> closures;
};

/// The phases called `step` of every rank, without the first where there are three or more (what happens once has
/// happened); everything where a rank has none, they differ in number, or `step` is empty.
/// Throws Error(usage) where the trace does not say what waited for what, or lacks a part of what happened.
Graph make_graph(const Trace& trace, const std::string& step = "step");

/// How a run stopped that did not reach its end.
struct Stop {
  int finished = 0;   // phases of the name that was asked for, which all ranks have ended
  std::string words;  // "in step 3: DEADLOCK: rank 0 waits for …", in one line
};
/// Nothing where it reached its end.
std::optional<Stop> stop_of(const Trace& trace, const std::string& phase = "step");

/// The steps of each rank, in their order.
struct Steps {
  std::map<int, std::vector<const TraceEvent*>> by_rank;
  std::size_t count = 0;  // of every rank: the first so many

  /// Whether it began in one of its rank's. Here, because the programs of labs' tests link shares.cpp alone.
  bool hold(const TraceEvent& event) const {
    const auto& all = by_rank.at(event.rank);
    const auto after = std::partition_point(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count),
                                            [&](const TraceEvent* step) { return step->begin <= event.begin; });
    return after != all.begin() && event.begin < (*(after - 1))->end;
  }
};
/// Phases of that name; none where the ranks differ in their number. Of a run that stopped, those that every rank has
/// ended.
Steps steps_of(const Trace& trace, const std::string& name = "step");

/// Seconds of each phase of that name, from when all ranks have begun it (who is late comes from elsewhere) to when the
/// last has ended it. Empty where ranks have different numbers of them.
std::vector<double> phase_seconds(const Trace& trace, const std::string& name);
/// Of what regions on main are called, the phases', sorted.
std::vector<std::string> phase_names(const Trace& trace);

}  // namespace lockstep::analysis
