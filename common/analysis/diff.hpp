// Two traces, operation by operation: a simulated run beside the measured one, or yesterday's beside today's.
#pragma once

#include <string>
#include <vector>

#include "common/runtime/trace/trace.hpp"
#include "common/support/json/results.hpp"

namespace lockstep::analysis {

/// Arithmetic, waiting or transfers: of all ranks together.
struct CategoryDifference {
  TraceEvent::Kind kind = TraceEvent::Kind::compute;
  double seconds_a = 0, seconds_b = 0;
  double only_a = 0, only_b = 0;  // of these: what the other has no counterpart of
};

/// All events of one kind and name; the k-th of a (rank, queue) in one trace stands beside the k-th in the other.
struct Difference {
  TraceEvent::Kind kind = TraceEvent::Kind::compute;
  std::string name;
  double seconds_a = 0, seconds_b = 0;  // of the pairs
  int pairs = 0;
  int only_a = 0, only_b = 0;  // events without counterpart
  double only_seconds_a = 0, only_seconds_b = 0;
  int rank = 0;  // where the pair that differs most is, which of its (rank, queue) it is, and by how much
  std::string queue;
  int occurrence = 0;
  double most = 0;  // seconds in B − seconds in A

  /// What B has more.
  double seconds() const { return seconds_b + only_seconds_b - seconds_a - only_seconds_a; }
};

struct Diff {
  int ranks = 0;
  int steps = 0;                        // that are compared, the first ones; 0: the runs, which have no steps
  double seconds_a = 0, seconds_b = 0;  // a step; of runs from the first event to the last
  double rest_a = 0, rest_b = 0;        // of the runs, beside their steps: set-up, validation, a sample
  std::vector<CategoryDifference> categories;
  std::vector<Difference> differences;  // the largest first, whichever its sign
};

/// Steps are compared with steps, as many as both runs have ended on all ranks; runs without steps are compared whole.
/// Throws Error(usage) with one sentence where nothing can be aligned: another number of ranks, not one operation in
/// common, or a run that stopped before it had ended a step. Times are as recorded.
Diff diff(const Trace& a, const Trace& b);

/// `most`: lines of differences.
std::string format_diff(const Diff& diff, std::size_t most);
std::vector<Row> rows(const Diff& diff);

}  // namespace lockstep::analysis
