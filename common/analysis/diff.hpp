// Compares two traces, operation by operation: a simulated run with a measured one, or yesterday's with today's.
#pragma once

#include <string>
#include <vector>

#include "common/runtime/trace/trace.hpp"
#include "common/support/json/results.hpp"

namespace lockstep::analysis {

/// Total over ranks of arithmetic, waiting or transfers.
struct CategoryDifference {
  TraceEvent::Kind kind = TraceEvent::Kind::compute;
  double seconds_a = 0, seconds_b = 0;
  double only_a = 0, only_b = 0;  // the parts of these without a counterpart in the other trace
};

/// All events of one kind and name. The k-th of a (rank, queue) in one trace is paired with the k-th in the other.
struct Difference {
  TraceEvent::Kind kind = TraceEvent::Kind::compute;
  std::string name;
  double seconds_a = 0, seconds_b = 0;  // total of the pairs
  int pairs = 0;
  int only_a = 0, only_b = 0;  // events without a counterpart
  double only_seconds_a = 0, only_seconds_b = 0;
  int rank = 0;  // the pair that differs most: its (rank, queue), its number there, and its difference
  std::string queue;
  int occurrence = 0;
  double most = 0;  // seconds in B − seconds in A

  /// Total of B minus total of A.
  double seconds() const { return seconds_b + only_seconds_b - seconds_a - only_seconds_a; }
};

struct Diff {
  int ranks = 0;
  int steps = 0;                        // number of steps compared, from the first; 0: whole runs, because they have no
                                        // steps
  double seconds_a = 0, seconds_b = 0;  // per step; for whole runs from the first event to the last
  double rest_a = 0, rest_b = 0;        // the rest of the runs: set-up, validation, a sample
  std::vector<CategoryDifference> categories;
  std::vector<Difference> differences;  // the largest first, by absolute value
};

/// Compares the steps that both runs have ended on all ranks; runs without steps are compared as a whole. Throws
/// Error(usage) with one sentence if nothing can be aligned: the numbers of ranks differ, there is no operation in
/// common, or a run stopped before the end of its first step. Times are as recorded.
Diff diff(const Trace& a, const Trace& b);

/// `most`: maximum number of lines with differences.
std::string format_diff(const Diff& diff, std::size_t most);
std::vector<Row> rows(const Diff& diff);

}  // namespace lockstep::analysis
