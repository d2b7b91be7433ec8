#include "tools/train/explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "common/support/text/nearest.hpp"
#include "tools/train/choices.hpp"
#include "tools/train/explain_parts.hpp"

namespace lockstep::train {

Facts facts_of(const TrainPlan& plan) {
  const TrainRequest& r = plan.request;
  const week25::Options3d& o = plan.step;
  const std::size_t parts = static_cast<std::size_t>(o.replicas()) * static_cast<std::size_t>(o.microbatches);
  Facts facts{r, o, o.largest_microbatch(), o.batch % parts == 0, 0, r.optimizer == "adamw"};
  facts.weight_decay = r.weight_decay.value_or(facts.adamw ? 0.1 : 0);
  facts.half = o.model.storage == DType::f16;
  facts.brain = o.model.storage == DType::bf16;
  return facts;
}

Nodes nodes_for(const TrainPlan& plan, int ranks) {
  const int node = plan.run.machine.levels.empty() ? ranks : std::min(ranks, plan.run.machine.levels.front().ranks);
  return ranks % node == 0 ? Nodes{ranks / node, node} : Nodes{1, ranks};
}

std::string torchrun(const TrainPlan& plan, const std::string& program) {
  const auto [nodes, node] = nodes_for(plan, plan.run.ranks);
  if (nodes == 1) return fmt::format("torchrun --standalone --nproc-per-node {} {}", node, program);
  return fmt::format("torchrun --nnodes {} --nproc-per-node {} --rdzv-backend c10d --rdzv-endpoint $HEAD:29500 {}",
                     nodes, node, program);
}

std::vector<std::string> common_differences(const Facts& f) {
  std::vector<std::string> all;
  const auto say = adds_to(all);
  say(!f.equal,
      "Microbatches of unequal size: there all have as many sequences; choose --batch divisible by --dp × "
      "--microbatches.");
  say(!f.r.compress.empty(),
      "--compress: as a communication hook in PyTorch's DDP you would write it yourself; elsewhere there is none.");
  say(f.r.outer_steps > 0,
      "--outer-steps: DiLoCo(manager, [model], optimizer, outer_optimizer, sync_every=…) of torchft.local_sgd, around "
      "a PyTorch loop without DDP; DeepSpeed and Megatron-LM have nothing of the kind.");
  say(f.r.optimizer == "sgd",
      "--optimizer sgd: ours averages the gradients for its momentum, torch.optim.SGD sums them (dampening=0).");
  say(f.r.tokens != "byte", "--tokens: gpt.py reads bytes; put your tokenizer there.");
  say(f.r.lr_scaling != "none", "--lr-scaling: the rate below is not scaled; multiply it yourself.");
  say(!f.r.checkpoint.empty() || !f.r.resume.empty(),
      "Checkpoints have other formats: ./lab export carries the weights over, not the optimizer's state.");
  say(true,
      "Initial weights and the order of the text are drawn differently: losses follow the same course, with other "
      "digits; begin with the same weights (--init) to compare.");
  return all;
}

namespace {

/// Options that change our step and nothing in what is printed for a program.
std::vector<std::string> without_a_line(const std::string& program) {
  std::vector<std::string> all{"--no-feedback", "--outer-lr", "--outer-momentum"};
  const auto add = [&](const std::vector<std::string>& more) { all.insert(all.end(), more.begin(), more.end()); };
  if (program == "megatron") add({"--wrap", "--prefetch"});
  if (program != "megatron") add({"--attention"});
  if (program == "deepspeed") add({"--chunks", "--sequence-parallel"});
  if (program == "accelerate")
    add({"--fp32-gradients", "--reduce", "--loss-scale", "--loss-scale-interval", "--schedule", "--chunks",
         "--sequence-parallel", "--overlap-scatter", "--bucket-bytes", "--prefetch", "--overlap-gather",
         "--no-overlap"});
  return all;
}

Explanation explanation(const std::string& program, const TrainPlan& plan) {
  if (program == "torchrun") return as_torchrun(plan);
  if (program == "accelerate") return as_accelerate(plan);
  if (program == "deepspeed") return as_deepspeed(plan);
  if (program == "megatron") return as_megatron(plan);
  if (program == "fairscale")
    refuse("--explain-as fairscale: its sharded DDP and FSDP moved into PyTorch, and it is archived; take torchrun.");
  if (program == "colossalai")
    refuse(
        "--explain-as colossalai: Colossal-AI has the same strategies (GeminiPlugin is ZeRO-3, HybridParallelPlugin "
        "the mesh), and its files are not printed here; take torchrun.");
  refuse(unknown_name("--explain-as", program,
                      std::array<std::string, 4>{"torchrun", "accelerate", "deepspeed", "megatron"}));
}

}  // namespace

Explanation explain_as(const std::string& program, const TrainPlan& plan) {
  Explanation e = explanation(program, plan);
  std::vector<std::string> without = without_a_line(program);
  std::erase_if(without, [&](const std::string& option) { return !plan.request.asks(option); });
  if (!without.empty()) e.differs.push_back(fmt::format("No line here follows from {}.", fmt::join(without, ", ")));
  return e;
}

std::string explanation_text(const Explanation& e) {
  std::string text = "# A shell script that writes complete files and starts them.\n";
  for (const Explanation::File& file : e.files)
    text += fmt::format("\ncat > {} <<'END_OF_FILE'\n{}END_OF_FILE\n", file.name, file.text);
  text += "\n# What differs\n";
  for (const std::string& sentence : e.differs) text += "#  - " + sentence + "\n";
  return text + "\n" + e.launch + "\n";
}

}  // namespace lockstep::train
