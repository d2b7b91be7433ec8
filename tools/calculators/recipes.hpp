// Bytes that training tools hold for each parameter, by their own counts, line by line (./lab memory --recipe).
#pragma once

#include <string>
#include <vector>

#include "labs/trainer/plan/offload.hpp"

namespace lockstep::bench {

/// Bytes of one kind for each parameter, and the ZeRO stage from which the ranks share them; kNever: each has all.
inline constexpr int kNever = 4;
struct RecipeLine {
  std::string kind;
  double bytes = 0;
  int shared_from = kNever;
  int last_stage = 3;  ///< in later stages the tool counts none
  bool on_host = false;
};

struct ToolRecipe {
  std::string name;
  std::string source;
  std::vector<int> stages;  ///< that the tool has, or counts
  std::vector<RecipeLine> lines;
  std::string largest;  ///< stage 3's bytes beyond its shards, 4 for each parameter of the largest layer; ""
  std::string remark;   ///< why others differ
  plan::Offload offload = plan::Offload::none;
};

const std::vector<ToolRecipe>& tool_recipes();
/// Throws Error(usage) that suggests the nearest name.
const ToolRecipe& find_recipe(const std::string& name);

/// Bytes of a model's state on one of `ranks` GPUs, without the state on its host. `largest_layer`: parameters; 0:
/// unknown, and left out.
double recipe_bytes(const ToolRecipe& recipe, double parameters, int stage, int ranks, double largest_layer);
/// Bytes on the host for one of `ranks` GPUs.
double host_bytes(const ToolRecipe& recipe, double parameters, int stage, int ranks);
/// A table: a line for each kind, a column for each stage; GB. Transfers take their time on nodes of `machine`, which
/// has a host.
std::string format_recipe(const ToolRecipe& recipe, const std::string& model, double parameters, int ranks,
                          double largest_layer, const Machine& machine);

}  // namespace lockstep::bench
