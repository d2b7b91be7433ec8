// Communication patterns for measuring the simulator: the course's collectives and some others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/rank.hpp"

namespace lockstep::bench {

/// One collective on one rank; groups and memory already exist.
using Turn = std::function<void()>;

struct Pattern {
  std::string name;
  std::function<Turn(Rank, Slice data)> set_up;
  bool meets_all = false;  // every rank has a message for every other one
};

std::vector<Pattern> simulator_patterns();

}  // namespace lockstep::bench
