// Explains the duration of a step: its critical path, and the time saved if one of its costs were removed. Each saving
// is found by replaying the run without that cost.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/analysis/graph.hpp"
#include "common/analysis/replay.hpp"
#include "common/support/json/results.hpp"

namespace lockstep::analysis {

/// Limits of a step. The first six can be removed; arithmetic is what remains.
enum class Cost { communication, bubble, imbalance, launch, data, arithmetic };
/// Returns "communication", "bubble", …
std::string_view to_string(Cost cost);
/// Returns the options that replay a run without this cost.
WhatIf without(Cost cost);

/// Time that a step saves if one cost is removed and the others stay.
struct Gain {
  Cost cost = Cost::arithmetic;
  double seconds = 0;  // duration of a step without the cost
  double gained = 0;   // fraction of the replayed step, between 0 and 1
};

/// One kind of activity on the critical path: an operation by name, or transfers of a collective.
struct PathShare {
  std::string name;
  bool transfer = false;
  double seconds = 0;  // per step
  int visits = 0;      // in all steps
};

/// Use of one rank's time, per step.
struct RankUse {
  double arithmetic = 0;  // seconds of all its operations
  double launch = 0;      // the part of them that is launch overhead
  double host = 0;        // seconds of main between operations; 0 in a modelled run
  double loading = 0;     // seconds of the host in regions called "data"
  double waiting = 0;     // main's waits, as replayed
  double moving = 0;      // at least one of its batches was in flight
  double hidden = 0;      // the part of it during which it computed
  double wire = 0;        // price of the messages that it received, each alone on the slowest link of its group, plus
                          // the time of its batches beyond their prices; in a measured run, from the time when both
                          // ends were ready
  int operations = 0;
};

struct Why {
  int ranks = 0;
  int steps = 0, first_step = 0, steps_in_run = 0;  // as in Graph
  bool modelled = false;                            // as in Trace
  double recorded_seconds = 0;                      // per step
  double seconds = 0;                               // per step, replayed with all its costs
  std::vector<Gain> gains;                          // largest first; without arithmetic
  Cost limit = Cost::arithmetic;                    // the largest gain of at least kWorthNaming, else arithmetic
  std::string sentence;                             // names the limit and the evidence
  std::vector<PathShare> path;                      // largest first
  double path_transfer = 0, path_arithmetic = 0, path_launch = 0, path_host = 0;  // seconds of the path, per step
  int path_hops = 0;                                                              // from rank to rank, in all steps
  std::vector<RankUse> use;                                                       // by rank
  std::map<std::string, double> operations;  // seconds per step and name, without launch, mean over the ranks

  const Gain& gain(Cost cost) const;
};

/// Smallest gain that is called a limit.
inline constexpr double kWorthNaming = 0.05;

/// `step` as in make_graph. Throws Error(usage) like make_graph.
Why why(const Trace& trace, const std::string& step = "step");

/// Formats the result for people, and as rows: one for each cost, and one for each part of the path
/// (docs/use/output.md).
std::string format_why(const Why& why);
std::vector<Row> rows(const Why& why);

}  // namespace lockstep::analysis
