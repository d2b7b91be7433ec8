#include "tools/calculators/recipes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/error.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::bench {

namespace {

const RecipeLine kCopy{"fp32 copy of the parameters", 4, 1}, kMoments{"m and v", 8, 1};

std::vector<ToolRecipe> on_gpus() {
  return {
      {"fp32-grads",
       "16-bit parameters, with gradients that are held and summed in fp32",
       {0, 1, 2, 3},
       {{"parameters, 16 bits", 2, 3}, {"gradients, fp32", 4, 2}, kCopy, kMoments},
       "",
       "With 16-bit gradients it is 16 bytes per parameter. ./lab train and plan have these gradients in stages 0 and "
       "1 (--fp32-gradients)."},
      {"megatron",
       "Megatron-LM in bf16 (Megatron Core, Distributed Optimizer: 18, and 6 + 12/d with it)",
       {0, 1},
       {{"parameters, 16 bits", 2, kNever}, {"main gradients, fp32", 4, kNever}, kCopy, kMoments},
       "",
       "Stage 1 is --use-distributed-optimizer. In fp16 it is 20 bytes, and 4 + 16/d: gradients have 16 bits, and the "
       "optimizer an fp32 copy of its part of them."},
      {"deepspeed",
       "DeepSpeed's estimate_zero2_ and estimate_zero3_model_states_mem_needs, without offloading",
       {2, 3},
       {{"parameters, 16 bits", 2, 3}, {"gradients, 16 bits", 2, 2, 2}, {"gradients, fp32", 4, 1}, kCopy, kMoments},
       "16-bit parameters and gradients of the largest layer",
       "Stage 2 is 2 + 18/N bytes per parameter and stage 3 is 18/N, where the ZeRO paper has 2 + 14/N and 16/N: the "
       "estimators count fp32 gradients. Stage 3 has 16-bit ones of one layer at a time. Older versions said 4 + 16/N "
       "for stage 2, which is 6 on 8 GPUs."},
      {"fsdp2",
       "PyTorch's fully_shard on fp32 parameters, with MixedPrecisionPolicy(bfloat16, reduce_dtype=float32)",
       {3},
       {{"parameters, fp32", 4, 3}, {"gradients, fp32", 4, 3}, kMoments},
       "16-bit parameters and gradients of the largest layer",
       "The sharded parameters are their own fp32 copy. What is gathered is a unit, usually a block, which is more "
       "than the largest layer."},
      {"nanotron",
       "nanotron's FP32GradientAccumulator",
       {0, 1},
       {{"parameters, 16 bits", 2, kNever},
        {"gradients, 16 bits", 2, kNever},
        {"gradients, fp32", 4, kNever},
        kCopy,
        kMoments},
       "",
       "16-bit gradients are freed when a microbatch has been added to the fp32 ones, so between microbatches it is 2 "
       "bytes less: 18. Its ZeRO-1 keeps fp32 gradients of all parameters on every rank."}};
}

std::vector<ToolRecipe> with_hosts() {
  const auto on_host = [](const std::string& kind, double bytes) {
    return RecipeLine{.kind = "host: " + kind, .bytes = bytes, .shared_from = 1, .on_host = true};
  };
  const RecipeLine host_gradients = on_host("gradients, fp32", 4), host_copy = on_host(kCopy.kind, kCopy.bytes),
                   host_moments = on_host(kMoments.kind, kMoments.bytes);
  const char* slow =
      "More microbatches move more, and a GPU that computes hides some (./lab plan --offload). Somebody's 8 A800 took "
      "31 s for 64 sequences of LLaMA-7B with offload_optimizer and 14 s without "
      "(gist.github.com/chenyaofo, ZeRO-3, recomputation).";
  return {{"deepspeed-offload",
           "DeepSpeed's estimate_zero3_model_states_mem_needs with offload_optimizer (ZeRO-Offload, Ren et al. 2021)",
           {3},
           {{"parameters, 16 bits", 2, 3},
            host_gradients,
            host_copy,
            host_moments,
            on_host("buffers, half of the rest", 8)},
           "16-bit parameters and gradients of the largest layer",
           slow,
           plan::Offload::optimizer},
          {"deepspeed-infinity",
           "the same with offload_param (ZeRO-Infinity, Rajbhandari et al. 2021)",
           {3},
           {on_host("parameters, 16 bits", 2), host_gradients, host_copy, host_moments,
            on_host("buffers, half of the rest", 9)},
           "16-bit parameters and gradients of the largest layer",
           slow,
           plan::Offload::parameters}};
}

}  // namespace

const std::vector<ToolRecipe>& tool_recipes() {
  static const std::vector<ToolRecipe> all = [] {
    std::vector<ToolRecipe> recipes = on_gpus();
    for (ToolRecipe& recipe : with_hosts()) recipes.push_back(std::move(recipe));
    return recipes;
  }();
  return all;
}

const ToolRecipe& find_recipe(const std::string& name) {
  return find_known("--recipe", name, tool_recipes(), &ToolRecipe::name);
}

namespace {

double line_bytes(const RecipeLine& line, int stage, int ranks) {
  if (stage > line.last_stage) return 0;
  return line.bytes / (stage >= line.shared_from ? ranks : 1);
}

double bytes_on(bool host, const ToolRecipe& recipe, double parameters, int stage, int ranks) {
  double bytes = 0;
  for (const RecipeLine& line : recipe.lines)
    if (line.on_host == host) bytes += line_bytes(line, stage, ranks) * parameters;
  return bytes;
}

}  // namespace

double recipe_bytes(const ToolRecipe& recipe, double parameters, int stage, int ranks, double largest_layer) {
  return bytes_on(false, recipe, parameters, stage, ranks) +
         (stage == 3 && !recipe.largest.empty() ? 4 * largest_layer : 0);
}

double host_bytes(const ToolRecipe& recipe, double parameters, int stage, int ranks) {
  return bytes_on(true, recipe, parameters, stage, ranks);
}

std::string format_recipe(const ToolRecipe& recipe, const std::string& model, double parameters, int ranks,
                          double largest_layer, const Machine& machine) {
  std::string text =
      fmt::format("{}: {}\n{}: {} parameters on {}, GB on each (bytes per parameter)\n{:<54}", recipe.name,
                  recipe.source, model, format_parameters(parameters), counted(ranks, "GPU"), "");
  for (const int stage : recipe.stages) text += fmt::format(" {:>18}", fmt::format("stage {}", stage));
  const auto row = [&](const std::string& kind, const auto& bytes_in) {
    text += fmt::format("\n{:<54}", kind);
    for (const int stage : recipe.stages) {
      const double bytes = bytes_in(stage);
      text += fmt::format(" {:>18}", fmt::format("{:.2f} ({:.4g})", bytes / 1e9, bytes / parameters));
    }
  };
  const auto line_row = [&](const RecipeLine& line) {
    row(line.kind, [&](int stage) { return parameters * line_bytes(line, stage, ranks); });
  };
  for (const RecipeLine& line : recipe.lines)
    if (!line.on_host) line_row(line);
  if (!recipe.largest.empty() && largest_layer > 0)
    row(recipe.largest, [&](int stage) { return stage == 3 ? 4 * largest_layer : 0; });
  row("together", [&](int stage) { return recipe_bytes(recipe, parameters, stage, ranks, largest_layer); });
  for (const RecipeLine& line : recipe.lines)
    if (line.on_host) line_row(line);
  if (recipe.offload != plan::Offload::none) {
    row("host, for each GPU", [&](int stage) { return host_bytes(recipe, parameters, stage, ranks); });
    const double elements = parameters / ranks, moved = plan::offload_bytes(recipe.offload).moved(1) * elements;
    const int gpus = std::min(ranks, machine.capacity());
    text += fmt::format(
        "\nOn {}, a step of one microbatch moves {:.2f} GB between each GPU and its host, {:.2f} s at {:.3g} GB/s, and "
        "Adam takes {:.2f} s on the host of {}.",
        machine.name, moved / 1e9, moved / machine.host->gpu_bytes_per_second, machine.host->gpu_bytes_per_second / 1e9,
        plan::adam_seconds(*machine.host, elements, gpus), counted(gpus, "GPU"));
  }
  text += fmt::format("\n{}\n", recipe.remark);
  if (!recipe.largest.empty() && largest_layer == 0)
    text += "Left out, since it depends on the model (--model): " + recipe.largest + ".\n";
  return text + "\n";
}

}  // namespace lockstep::bench
