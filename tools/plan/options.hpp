// The command line of ./lab plan, and the task that it asks for.
#pragma once

#include <string>

#include "common/support/text/command_line.hpp"
#include "labs/trainer/plan/search.hpp"

namespace lockstep::plan {

inline const std::string kMachines = LOCKSTEP_SOURCE_DIR "/bench/machines";

struct PlanOptions {
  std::string model = "gpt3-175b", cluster = "dgx-a100x128", memory, prices = "lab", units = "block",
              attention = "flash", offload = "none", precision = "bf16";
  int global_batch = 0, sequence = 0, top = 10, simulate = 0;
  double imbalance = 1, load_rate = 0;
  std::string cp = "1";
  int shard_group = 0;
  std::string explain, score, json, csv, table, price, without;
  std::string command_line;  // that repeats it
  std::string card, answer;
  bool validate = false, fast = false, overlap_scatter = false, overlap_gather = false, fp32_gradients = false;
};

/// Adds all of them to the command line, and says which exclude each other.
void add_options(CommandLine& line, PlanOptions& options);

/// The task that the options describe. Throws Error(usage) where they make no sense, alone or together.
Task task_of(const PlanOptions& options);

/// The word of --offload for it.
const std::string& word_of(Offload offload);

/// Throws Error(usage) with the sentence.
[[noreturn]] void refuse(const std::string& sentence);

}  // namespace lockstep::plan
