// ./lab train … --explain-as: the same run in the words of other software. docs/use/bridge.md has all options side by
// side.
#pragma once

#include <string>
#include <vector>

#include "tools/train/plan.hpp"

namespace lockstep::train {

struct Explanation {
  struct File {
    std::string name, text;
  };
  std::vector<File> files;           // complete: they run as they are
  std::string launch;                // the command that starts them
  std::vector<std::string> differs;  // sentences: differences there, and missing features
};

/// `program`: torchrun, accelerate, deepspeed or megatron. Throws Error(usage) for another, with one sentence for
/// programs that have the idea and are no longer a place to start.
Explanation explain_as(const std::string& program, const TrainPlan& plan);

/// The explanation as a shell script that writes the files and starts them.
std::string explanation_text(const Explanation& explanation);

}  // namespace lockstep::train
