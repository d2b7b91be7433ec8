// A run as a graph: the actions of each queue of each rank, in order, and their dependencies. Made from a trace;
// replay.hpp replays it without some of its costs.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/runtime/trace/trace.hpp"

namespace lockstep::analysis {

/// Arithmetic, or time of a queue for which the trace has no event: host time between two operations.
struct Activity {
  enum class Kind : unsigned char { arithmetic, host, data };  // data: host time in a region called "data"
  Kind kind = Kind::arithmetic;
  int event = -1;      // index in the trace
  int lane = 0;        // the lane that runs it
  int step = 0;        // counted from 0
  double seconds = 0;  // duration without contention
  double launch = 0;   // part of them: the price of an operation that does nothing
  double before = 0;   // data: part that was done before the first step of the graph began
};

/// A message between two batches. −1: that end is not part of the graph.
struct Message {
  int sender = -1;
  int receiver = -1;
  bool eager = false;  // leaves before its receive is posted
  double latency = 0;  // on a modelled machine: see TraceMessage
  double seconds = 0;
};

struct TransferBatch {
  int event = -1;
  int lane = 0;
  int before = -1;            // the preceding batch on the same (group, queue)
  std::vector<int> messages;  // messages that it sends or receives
  double delay = 0;           // seconds beyond its messages' prices: ports were busy. The whole duration if prices are
                              // unknown
};

struct Closure {
  int lane = 0;
};

/// One action of a lane.
struct Action {
  enum class Kind : unsigned char { work, start, await_batch, give, await_closure, begin_closure, end_closure };
  Kind kind = Kind::work;
  int index = 0;  // index of the work, batch or closure
};

/// A queue of a rank.
struct Lane {
  int rank = 0;
  int queue = 0;
  std::vector<Action> program;
};

struct Graph {
  bool one_engine = false;  // on modelled machines: arithmetic on a rank's other queues slows down main's
  int ranks = 0;
  int steps = 1;            // number of steps in the graph
  int first_step = 0;       // index in the run, from 0
  int steps_in_run = 0;     // 0: the run has no region of that name and counts as one step
  double recorded = 0;      // seconds of these steps in the trace (phase_seconds)
  std::vector<Lane> lanes;  // by rank, then queue; main first
  std::vector<Activity> works;
  std::vector<Message> messages;
  std::vector<TransferBatch> batches;
  std::vector<Closure> closures;
};

/// Makes a graph of the phases called `step` of every rank, except the first if there are three or more (it contains
/// what happens only once). Takes the whole run if a rank has no such phase, if their numbers differ, or if `step` is
/// empty. Throws Error(usage) if the trace lacks dependencies or events.
Graph make_graph(const Trace& trace, const std::string& step = "step");

/// The point at which an unfinished run stopped.
struct Stop {
  int finished = 0;   // phases of the requested name that all ranks have ended
  std::string words;  // "in step 3: DEADLOCK: rank 0 waits for …", on one line
};
/// Returns nothing if the run reached its end.
std::optional<Stop> stop_of(const Trace& trace, const std::string& phase = "step");

/// The steps of each rank, in order.
struct Steps {
  std::map<int, std::vector<const TraceEvent*>> by_rank;
  std::size_t count = 0;  // the same on every rank: only the first `count` are used

  /// True if the event began in one of its rank's steps. Defined here because the programs of labs' tests link
  /// shares.cpp alone.
  bool hold(const TraceEvent& event) const {
    const auto& all = by_rank.at(event.rank);
    const auto after = std::partition_point(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count),
                                            [&](const TraceEvent* step) { return step->begin <= event.begin; });
    return after != all.begin() && event.begin < (*(after - 1))->end;
  }
};
/// Returns the phases of that name; none if ranks differ in their number. For a run that stopped, those that every rank
/// has ended.
Steps steps_of(const Trace& trace, const std::string& name = "step");

/// Seconds of each phase of that name, from the time when all ranks have begun it (lateness has causes elsewhere) until
/// the last rank has ended it. Empty if ranks differ in their number.
std::vector<double> phase_seconds(const Trace& trace, const std::string& name);
/// Names of the regions and phases on main, sorted.
std::vector<std::string> phase_names(const Trace& trace);

}  // namespace lockstep::analysis
