// ./lab train … --explain-as: the same run in the words of other software. docs/use/bridge.md has all options side by
// side.
#pragma once

#include <string>
#include <vector>

#include "tools/train/plan.hpp"

namespace lockstep::train {

struct Explanation {
  std::string launch;                // the command that starts it
  std::string file;                  // what its configuration is called; empty: all is in the command
  std::string config;                // and holds
  std::vector<std::string> differs;  // sentences: what is not the same there, or is missing
};

/// `program`: torchrun, deepspeed or megatron. Throws Error(usage) for another.
Explanation explain_as(const std::string& program, const TrainPlan& plan);

/// As it is printed.
std::string explanation_text(const Explanation& explanation);

}  // namespace lockstep::train
