// Which rank holds which partial sum of which chunk after each of its batches of messages, followed through the run's
// own messages, additions and copies. For collectives on small arrays, in the simulator and on MPI: their traces say
// what each operation reads and writes.
#pragma once

#include <string>
#include <vector>

#include "common/analysis/shares.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep::analysis {

/// What a chunk of a rank's array is a sum of.
struct Held {
  std::string text;       // "0+1+2": the ranks whose values it adds up; "–": nothing was ever put there
  bool complete = false;  // every rank's value, each once
  bool twice = false;     // some rank's more than once
};

struct Holdings {
  int ranks = 0;
  std::size_t chunks = 0;
  std::vector<std::vector<std::vector<Held>>> steps;  // [step][rank][chunk]; step 0: before the first batch
  std::vector<std::vector<double>> times;             // [step][rank]: when that rank had come so far
  std::string none;                                   // why there are none, where there are none
};

/// At most 16 ranks with arrays of at most 4096 bytes, and 200 batches a rank; the array is each rank's first that was
/// uploaded and is sent of.
Holdings holdings_of(const Trace& trace, const std::vector<Flight>& flights);
inline Holdings holdings_of(const Trace& trace) { return holdings_of(trace, flights_of(trace)); }

}  // namespace lockstep::analysis
