// Replays a run's graph, unchanged or without some of its costs, to find how long it would have taken. Dependencies
// remain, so a cost that only moves elsewhere does not count as saved.
//
// Ideal networks: Dimemas (Badia et al., Dimemas: predicting MPI applications behaviour in grid environments, 2003) and
// the transfer and serialisation factors of Rosas, Giménez and Labarta, Scalability prediction for fundamental
// performance factors (Supercomputing Frontiers and Innovations 1(2), 2014). Critical paths: Yang and Miller, Critical
// path analysis for the execution of parallel and distributed programs (ICDCS 1988).
#pragma once

#include <vector>

#include "common/analysis/graph.hpp"

namespace lockstep::analysis {

/// The costs to remove.
struct WhatIf {
  bool free_messages = false;  // messages take no time; they still wait for their sender and receiver
  bool no_turns = false;       // the other end of a message is always ready
  bool equal_work = false;     // in each step every rank has the same arithmetic: the mean over ranks
  bool no_launch = false;      // an operation that does nothing costs nothing; no host time between operations
  bool no_data = false;        // loading data costs nothing
};

/// A segment of the critical path.
struct Segment {
  enum class Kind : unsigned char { work, transfer };
  Kind kind = Kind::work;
  int index = 0;  // index of the work, or of the batch
  double begin = 0;
  double end = 0;
};

struct Replay {
  double seconds = 0;         // until the last lane has ended
  std::vector<double> waits;  // by rank: seconds in which main waited
  std::vector<Segment> path;  // the critical path: each segment begins at the end of the preceding one; the first
                              // begins at 0
};

/// Throws Error(usage) if the graph cannot be replayed to its end: the trace waits for a message or closure that it
/// does not contain.
Replay replay(const Graph& graph, const WhatIf& what_if = {});

}  // namespace lockstep::analysis
