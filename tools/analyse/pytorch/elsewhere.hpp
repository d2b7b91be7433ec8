// The step time of a run of PyTorch on another machine: the same graph, replayed with that machine's collectives.
#pragma once

#include <string>
#include <vector>

#include "common/runtime/machine/machine.hpp"
#include "common/support/json/results.hpp"
#include "tools/analyse/pytorch/match.hpp"

namespace lockstep::pytorch {

struct There {
  int ranks = 0;     // in the groups of all ranks; 0: as many as here
  double speed = 1;  // operations take 1/speed of their time; the host's time stays
};

/// Collectives of one name, number of bytes and group size.
struct Repriced {
  std::string name;
  double bytes = 0;  // 0: the trace does not say, so they take as long as here
  int ranks = 0;     // there
  double each_step = 0;
  double here = 0, there = 0;  // seconds of one, from its last arrival; here the median
};

struct Elsewhere {
  std::string machine;
  There given;
  int ranks = 0;                         // of the run, there
  int not_given = 0;                     // ranks of the recorded run without a file
  int first_step = 0, steps_in_run = 1;  // replayed from the first one (counted from 0) to the last
  double recorded = 0, replayed = 0;     // seconds of one of these here; replayed without a change
  double seconds = 0;                    // of a step there
  double floor = 0;                      // at any speed: the host's time and the collectives
  bool other_device = false;             // the trace is a CPU's, the machine has GPUs
  double at_most = 0;                    // if what a rank computes needs all collectives that ended before it
  std::vector<Repriced> collectives;     // the longest there first
};

/// Throws Error(usage) if the machine has fewer ranks.
Elsewhere elsewhere(const Matched& matched, const Machine& machine, const There& there);

std::string format(const Elsewhere& elsewhere);
/// One for the step, and one for each kind of collective (docs/use/output.md).
std::vector<Row> rows(const Elsewhere& elsewhere);

}  // namespace lockstep::pytorch
