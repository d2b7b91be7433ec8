// Layout of a trace: its rows, and the events of a row that may share a line.
#pragma once

#include <string>
#include <vector>

#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// One queue of one rank that has events. Rows are ordered by (rank, queue).
struct TraceRow {
  int rank = 0;
  int queue = 0;
  std::string queue_name;
  std::vector<const TraceEvent*> work;       // compute and wait, ordered by begin
  std::vector<const TraceEvent*> regions;    // ordered by begin, longer first; phases before others of the same length
  std::vector<const TraceEvent*> transfers;  // ordered likewise
};
std::vector<TraceRow> trace_rows(const Trace& trace);

/// First begin and last end over all events; both 0 without events.
struct TimeSpan {
  double begin = 0;
  double end = 0;
  double length() const { return end - begin; }
};
TimeSpan time_span(const Trace& trace);

/// Distributes events (ordered by begin, longer first) over as few lanes as a greedy pass finds. Two events of a lane
/// are disjoint or, if `nest`, one contains the other. Times are compared in whole nanoseconds.
std::vector<std::vector<const TraceEvent*>> lanes(const std::vector<const TraceEvent*>& events, bool nest);

/// Both lists merged, ordered by begin, longer first; at equal length, events of `outer` come first.
std::vector<const TraceEvent*> merged_by_begin(const std::vector<const TraceEvent*>& outer,
                                               const std::vector<const TraceEvent*>& inner);

/// Appended to a queue's name if its transfers have a line of their own.
inline constexpr const char* kTransfers = ": transfers";

/// Nanoseconds, rounded: the resolution of traces.
long long nanoseconds(double seconds);

/// Seconds covered by at least one of `events`.
double covered(const std::vector<const TraceEvent*>& events, TraceEvent::Kind kind);

}  // namespace lockstep
