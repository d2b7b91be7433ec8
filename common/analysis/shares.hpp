// What each rank's main did with its time, as recorded: arithmetic, waiting while its messages were on their way,
// waiting while nothing of its own went on. The first equals the ledger's busy time, the two others together its
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
  double exposed = 0;    // main waited, and a message of this rank was on its way, or another of its queues computed
  double bubble = 0;     // main waited, and nothing of this rank went on: others were late
  double other = 0;      // the rest: the host between operations, and what came after the rank's end
  double waiting() const { return exposed + bubble; }
};

/// A stretch in which a rank waited, as it counts.
struct WaitPart {
  int event = 0;  // of the trace
  double begin = 0, end = 0;
  bool exposed = false;
};

struct Shares {
  double seconds = 0;            // of the run: the last event of any rank
  std::vector<TimeShare> ranks;  // that have events, by rank
  TimeShare all;                 // sums
  std::vector<WaitPart> waits;   // of main, by rank and time
};

/// The same of main within the steps alone, all ranks together.
TimeShare share_of_steps(const Trace& trace, const Steps& steps, const Shares& shares);

/// A message as recorded. It is on its way from when both of its ends had begun, or its sender alone where it needs no
/// receiver yet.
struct Flight {
  int from = -1, to = -1;      // events of the trace; −1: not recorded
  std::size_t which_from = 0;  // of that event's messages
  std::size_t which_to = 0;
  double begin = 0, end = 0;  // on its way
};
std::vector<Flight> flights_of(const Trace& trace);

/// Of the whole trace, and of its flights where they are known.
Shares shares_of(const Trace& trace, const std::vector<Flight>& flights);
inline Shares shares_of(const Trace& trace) { return shares_of(trace, flights_of(trace)); }

}  // namespace lockstep::analysis
