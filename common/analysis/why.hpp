// Why a step takes as long as it does: its critical path, and what it would gain if one of its costs vanished, each
// found by replaying the run without it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/analysis/graph.hpp"
#include "common/analysis/replay.hpp"
#include "common/support/json/results.hpp"

namespace lockstep::analysis {

/// What can limit a step. The first six can be taken away; arithmetic is what then remains.
enum class Cost { communication, bubble, imbalance, launch, data, arithmetic };
/// "communication", "bubble", …
std::string_view to_string(Cost cost);
/// How a run without it is replayed.
WhatIf without(Cost cost);

/// What a step would gain without one cost; the others stay.
struct Gain {
  Cost cost = Cost::arithmetic;
  double seconds = 0;  // of a step without it
  double gained = 0;   // of the replayed step, between 0 and 1
};

/// One kind of thing on the critical path: an operation by name, or transfers of a collective.
struct PathShare {
  std::string name;
  bool transfer = false;
  double seconds = 0;  // a step
  int visits = 0;      // of all steps
};

/// Of one rank, a step.
struct RankUse {
  double arithmetic = 0;  // seconds of all its operations
  double launch = 0;      // of them
  double host = 0;        // seconds of main between operations; 0 in a modelled run
  double loading = 0;     // seconds of its host in regions called "data"
  double waiting = 0;     // of main, as replayed
  double moving = 0;      // at least one of its batches was on its way
  double hidden = 0;      // of these: while it computed
  double wire = 0;        // what the messages that it received cost alone, on the slowest link of their group, and what
                          // its batches took beyond their prices; of a measured run, from when both ends were ready
  int operations = 0;
};

struct Why {
  int ranks = 0;
  int steps = 0, first_step = 0, steps_in_run = 0;  // as in Graph
  bool modelled = false;                            // as in Trace
  double recorded_seconds = 0;                      // a step
  double seconds = 0;                               // a step, replayed with all its costs
  std::vector<Gain> gains;                          // the largest first; arithmetic is not among them
  Cost limit = Cost::arithmetic;                    // the largest gain of at least kWorthNaming, else arithmetic
  std::string sentence;                             // names it, with the evidence
  std::vector<PathShare> path;                      // the largest first
  double path_transfer = 0, path_arithmetic = 0, path_launch = 0, path_host = 0;  // seconds of the path, a step
  int path_hops = 0;                                                              // from rank to rank, all steps
  std::vector<RankUse> use;                                                       // by rank
  std::map<std::string, double> operations;  // seconds a step of each by name, without launch, mean over the ranks

  const Gain& gain(Cost cost) const;
};

/// A smaller gain is not called a limit.
inline constexpr double kWorthNaming = 0.05;

/// `step` as for make_graph. Throws Error(usage) as that.
Why why(const Trace& trace, const std::string& step = "step");

/// For people, and as rows: one for each cost, and one for each share of the path (docs/output.md).
std::string format_why(const Why& why);
std::vector<Row> rows(const Why& why);

}  // namespace lockstep::analysis
