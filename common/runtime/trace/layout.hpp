// How a trace is laid out: which rows there are, and which events of a row may share a line.
#pragma once

#include <string>
#include <vector>

#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// One queue of one rank that has events, in order of (rank, queue).
struct TraceRow {
  int rank = 0;
  int queue = 0;
  std::string queue_name;
  std::vector<const TraceEvent*> work;       // compute and wait, by begin
  std::vector<const TraceEvent*> regions;    // by begin, the longer first; of equals, phases first
  std::vector<const TraceEvent*> transfers;  // likewise
};
std::vector<TraceRow> trace_rows(const Trace& trace);

/// First begin and last end over all events; both 0 where there are none.
struct TimeSpan {
  double begin = 0;
  double end = 0;
  double length() const { return end - begin; }
};
TimeSpan time_span(const Trace& trace);

/// Distributes events, sorted by begin and the longer first, over as few lanes as a greedy walk finds, so that two
/// events of a lane are disjoint or, where `nest`, one holds the other. Times are compared in whole nanoseconds.
std::vector<std::vector<const TraceEvent*>> lanes(const std::vector<const TraceEvent*>& events, bool nest);

/// Both lists in one, by begin, the longer first; of equals, those of `outer` first.
std::vector<const TraceEvent*> merged_by_begin(const std::vector<const TraceEvent*>& outer,
                                               const std::vector<const TraceEvent*>& inner);

/// Added to a queue's name where its transfers have a line of their own.
inline constexpr const char* kTransfers = ": transfers";

/// Nanoseconds, rounded: the resolution of traces.
long long nanoseconds(double seconds);

/// Seconds that at least one of `events` covers.
double covered(const std::vector<const TraceEvent*>& events, TraceEvent::Kind kind);

}  // namespace lockstep
