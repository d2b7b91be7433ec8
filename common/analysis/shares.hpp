// Splits the time of each rank's main, as recorded: arithmetic, waiting while the rank's messages were in flight,
// waiting while nothing of the rank was active. The first equals the ledger's busy time, the sum of the others its
// waiting.
#pragma once

#include <cstddef>
#include <vector>

#include "common/analysis/graph.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep::analysis {

struct TimeShare {
  int rank = 0;
  double seconds = 0;    // from 0 to the rank's last event
  double computing = 0;  // main's arithmetic
  double exposed = 0;    // main waited while a message of this rank was in flight, or another of its queues computed
  double bubble = 0;     // main waited and nothing of this rank was active: others were late
  double other = 0;      // the rest: host time between operations, and the time after the rank's end
  double waiting() const { return exposed + bubble; }
};

/// An interval in which a rank waited, and its category.
struct WaitPart {
  int event = 0;  // index in the trace
  double begin = 0, end = 0;
  bool exposed = false;
};

struct Shares {
  double seconds = 0;            // duration of the run: the end of the last event of any rank
  std::vector<TimeShare> ranks;  // ranks that have events, in order
  TimeShare all;                 // sums
  std::vector<WaitPart> waits;   // waits of main, by rank and time
};

/// The same for main within the steps only, summed over ranks.
TimeShare share_of_steps(const Trace& trace, const Steps& steps, const Shares& shares);

/// A message as recorded. It is in flight from the time when both of its ends have begun, or only its sender if it is
/// eager.
struct Flight {
  int from = -1, to = -1;                                   // events of the trace; −1: not recorded
  const TraceMessage *sent = nullptr, *received = nullptr;  // as these events have it; null likewise
  double begin = 0, end = 0;                                // time in flight
};
/// They point into the trace.
std::vector<Flight> flights_of(const Trace& trace);

/// Analyses the whole trace; takes its flights if they are already known.
Shares shares_of(const Trace& trace, const std::vector<Flight>& flights);
inline Shares shares_of(const Trace& trace) { return shares_of(trace, flights_of(trace)); }

}  // namespace lockstep::analysis
