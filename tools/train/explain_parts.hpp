// What --explain-as knows of a run whichever program it is told for, and a function for each program.
#pragma once

#include <string>
#include <vector>

#include "tools/train/explain.hpp"

namespace lockstep::train {

/// What all three want to know.
struct Facts {
  const TrainRequest& r;
  const week25::Options3d& o;
  std::size_t micro = 0;    // sequences of a microbatch
  bool equal = true;        // all microbatches have as many
  double weight_decay = 0;  // of matrices
  bool adamw = true;
  bool half = false, brain = false;  // fp16, bf16
};
Facts facts_of(const TrainPlan& plan);

/// GPUs of the whole run, in nodes as the machine file has them.
struct Nodes {
  int nodes = 1, gpus = 1;
};
Nodes nodes_of(const TrainPlan& plan);
/// The command that starts `program` on all of them.
std::string torchrun(const TrainPlan& plan, const std::string& program);
/// What is the same nowhere.
std::vector<std::string> common_differences(const Facts& facts);

Explanation as_torchrun(const TrainPlan& plan);
Explanation as_deepspeed(const TrainPlan& plan);
Explanation as_megatron(const TrainPlan& plan);

}  // namespace lockstep::train
