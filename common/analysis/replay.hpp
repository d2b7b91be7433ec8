// Replays a run's graph, as it was or with some of its costs taken away: how long it would have taken. Dependencies
// stay, so what a saving only moves elsewhere is not counted as gained.
//
// Ideal networks: Dimemas (Badia et al., Dimemas: predicting MPI applications behaviour in grid environments, 2003) and
// the transfer and serialisation factors of Rosas, Giménez and Labarta, Scalability prediction for fundamental
// performance factors (Supercomputing Frontiers and Innovations 1(2), 2014). Critical paths: Yang and Miller, Critical
// path analysis for the execution of parallel and distributed programs (ICDCS 1988).
#pragma once

#include <vector>

#include "common/analysis/graph.hpp"

namespace lockstep::analysis {

/// What is taken away.
struct WhatIf {
  bool free_messages = false;  // messages take no time; they still wait for who sends and who receives them
  bool no_turns = false;       // the other end of a message is always ready: nobody waits for another's turn
  bool equal_work = false;     // in each step every rank has the same arithmetic: the mean of all ranks
  bool no_launch = false;      // an operation that does nothing costs nothing; no host time between operations
  bool no_data = false;        // loading data costs nothing
};

/// A stretch of the critical path.
struct Segment {
  enum class Kind : unsigned char { work, transfer };
  Kind kind = Kind::work;
  int index = 0;  // of the work, or of the batch
  double begin = 0;
  double end = 0;
};

struct Replay {
  double seconds = 0;         // until the last lane has ended
  std::vector<double> waits;  // of each rank: seconds in which main waited
  std::vector<Segment> path;  // critical: each segment begins where the one before it ends; the first begins at 0
};

/// Throws Error(usage) where the graph cannot be replayed to its end: a message or closure that the trace waits for is
/// not in it.
Replay replay(const Graph& graph, const WhatIf& what_if = {});

}  // namespace lockstep::analysis
