// What ranks say to each other: the course's collectives and a few that it does not have, for the simulator's cost.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/rank.hpp"

namespace lockstep::bench {

/// One collective on one rank, groups and memory being there already.
using Turn = std::function<void()>;

struct Pattern {
  std::string name;
  std::function<Turn(Rank, Slice data)> set_up;
  bool meets_all = false;  // every rank has a message for every other one
};

std::vector<Pattern> simulator_patterns();

}  // namespace lockstep::bench
