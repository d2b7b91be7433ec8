// Tracks which rank holds which partial sum of which chunk after each of its batches of messages. Derived by following
// the run's messages, additions and copies. For collectives on small arrays in the simulator and on MPI, whose traces
// say what each operation reads and writes.
#pragma once

#include <string>
#include <vector>

#include "common/analysis/shares.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep::analysis {

/// The sum in a chunk of a rank's array.
struct Held {
  std::string text;       // "0+1+2": the ranks whose values it contains; "–": nothing was written there
  bool complete = false;  // every rank's value, exactly once
  bool twice = false;     // some rank's value more than once
};

struct Holdings {
  int ranks = 0;
  std::size_t chunks = 0;
  std::vector<std::vector<std::vector<Held>>> steps;  // [step][rank][chunk]; step 0: before the first batch
  std::vector<std::vector<double>> times;             // [step][rank]: time at which that rank reached the step
  std::string none;                                   // the reason, if there are none
};

/// Limited to 16 ranks with arrays of at most 4096 bytes, and 200 batches per rank. The array is the first one that
/// each rank uploads and sends from.
Holdings holdings_of(const Trace& trace, const std::vector<Flight>& flights);
inline Holdings holdings_of(const Trace& trace) { return holdings_of(trace, flights_of(trace)); }

}  // namespace lockstep::analysis
