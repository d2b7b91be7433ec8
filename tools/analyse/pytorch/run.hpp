// A distributed run of PyTorch, from the traces of its ranks: where each rank's time went, which rank the others wait
// for, and which collectives do not match.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/support/json/results.hpp"
#include "tools/analyse/pytorch/match.hpp"

namespace lockstep::pytorch {

/// Seconds of a step of one rank. computing + moving + waiting + idle = step.
struct RankTime {
  int rank = 0;
  double step = 0;
  double computing = 0;
  double hidden = 0;   // collectives behind computing
  double moving = 0;   // exposed: every rank had arrived
  double waiting = 0;  // exposed: another rank had not arrived
  double idle = 0;     // neither computing nor in a collective
  double held = 0;     // waiting of all others, where it arrived last
  int last = 0;        // collectives at which it arrived last, by more than kNoticed of a step
  std::string part;    // the smallest named part of the program in which half of `idle` lies, or more; may be empty
  double in_part = 0;  // so much of `idle`
};

/// Collectives of one name, group size and number of bytes.
struct CollectiveTime {
  std::string name;
  double bytes = 0;
  int members = 0;
  double each_step = 0;  // how many
  double moving = 0;     // seconds of one, from the last arrival, median
  double waiting = 0;    // seconds between the first arrival and the last, median
};

struct Run {
  int of_ranks = 0;      // in the run; more than `ranks` if not all were given
  bool partial = false;  // and some collective is of ranks that were not given: its moving may be waiting for them
  int steps = 0;
  bool gpu = false;
  std::string backend;
  int matched = 0;  // collectives that all ranks of their group have
  std::vector<RankTime> ranks;
  std::vector<CollectiveTime> collectives;  // the longest first
  std::vector<std::string> mismatches;      // one sentence each
  std::string limit;     // "straggler", "imbalance", "communication", "collectives" (partial), "idle" or "computing"
  std::string sentence;  // names the limit, and what would be saved
};

/// The share of all waiting, which is for one rank, from which it is said to hold the others up. By chance one of four
/// comes last at half of a few collectives.
inline constexpr double kOneRank = 0.75;

/// A share of a step that is worth naming.
inline constexpr double kNoticed = 0.05;

Run analyse(const Matched& matched);
inline Run analyse(std::vector<RankTrace> traces) { return analyse(match(std::move(traces))); }

std::string format(const Run& run);
/// One for each rank, one for each kind of collective (docs/use/output.md).
std::vector<Row> rows(const Run& run);

}  // namespace lockstep::pytorch
