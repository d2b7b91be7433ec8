// Facts about a run that --explain-as needs for every program, and a function for each program.
#pragma once

#include <string>
#include <vector>

#include "tools/train/explain.hpp"

namespace lockstep::train {

/// Shared by all of them.
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

/// So many GPUs, in nodes as the machine file has them.
struct Nodes {
  int nodes = 1, gpus = 1;
};
Nodes nodes_for(const TrainPlan& plan, int ranks);
/// The command that starts `program` on all of them.
std::string torchrun(const TrainPlan& plan, const std::string& program);
/// A function that adds a sentence to `differs` where it is so.
inline auto adds_to(std::vector<std::string>& differs) {
  return [&differs](bool so, const std::string& sentence) {
    if (so) differs.push_back(sentence);
  };
}
/// Differences from every program.
std::vector<std::string> common_differences(const Facts& facts);

/// The file of the text, as the printed programs name it.
std::string text_file(const TrainPlan& plan);
/// The model and the data of the programs in Python.
Explanation::File gpt_file(const TrainPlan& plan);
/// Differences from every such program.
std::vector<std::string> differences_of_gpt(const Facts& facts);
/// An optimizer of PyTorch over `parameters`, without its closing parenthesis.
std::string optimizer_call(const Facts& facts, const char* parameters);
/// Lines that choose this rank's device: `kind` and `device`.
std::string place_lines();
/// The condition, in the loop over steps, for saving a checkpoint: every --checkpoint-every steps, and after the last.
std::string if_it_saves(const Facts& facts);
/// ds_config.json.
Explanation::File deepspeed_config(const TrainPlan& plan);

Explanation as_accelerate(const TrainPlan& plan);
Explanation as_torchrun(const TrainPlan& plan);
Explanation as_deepspeed(const TrainPlan& plan);
Explanation as_megatron(const TrainPlan& plan);

}  // namespace lockstep::train
