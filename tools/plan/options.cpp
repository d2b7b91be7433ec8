#include "tools/plan/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/error.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/parse_number.hpp"
#include "common/support/text/trim.hpp"
#include "common/support/text/units.hpp"
#include "tools/plan/software.hpp"

namespace lockstep::plan {
namespace {

constexpr int kLongest = 1 << 24;  // tokens of a sequence whose positions are rotary

/// "1,2,4": how many ranks may share each sequence.
std::vector<int> sharers_of(const std::string& text, int gpus) {
  std::vector<int> all;
  for (const std::string& number : split(text)) {
    const int count = parse_number<int>(number).value_or(0);
    if (count < 1 || count > gpus)
      refuse(fmt::format("--cp {}: how many of {} GPUs share each sequence; several with commas: 1,2,4,8", text, gpus));
    if (std::find(all.begin(), all.end(), count) == all.end()) all.push_back(count);
  }
  return all;
}

const std::vector<std::string> kOffloads{"none", "optimizer", "parameters"};

/// Reads --offload, whose host the machine must describe, and the simulator does not have.
Offload offload_of(const PlanOptions& o, const Machine& machine) {
  const auto known = std::find(kOffloads.begin(), kOffloads.end(), o.offload);
  if (known == kOffloads.end()) refuse(unknown_name("--offload", o.offload, kOffloads));
  if (o.offload != "none" && !machine.host)
    refuse(
        fmt::format("--offload {}: the machine file of {} has no host, whose memory and bandwidths it needs "
                    "(docs/use/machines.md)",
                    o.offload, o.cluster));
  if (o.offload != "none" && o.simulate > 0)
    refuse(fmt::format("--simulate {}: the simulator has no host to offload to; --offload {} is by formula alone",
                       o.simulate, o.offload));
  if (o.offload != "none" && o.fp32_gradients)
    refuse("--fp32-gradients is for ZeRO-0 and 1, which --offload leaves on the GPUs: leave one of them out");
  return static_cast<Offload>(known - kOffloads.begin());
}

/// A mixture of experts is planned by formula alone.
void check_mixture(const PlanOptions& o, const Task& task) {
  const auto experts = static_cast<double>(task.model.architecture.experts);
  if (o.imbalance < 1 || o.imbalance > std::max(1.0, experts))
    refuse(
        fmt::format("--imbalance {:g}: the rows of the busiest rank, in multiples of the average, are from 1 to the "
                    "number of experts, and {} has {:g}",
                    o.imbalance, o.model, experts));
  const std::pair<bool, const char*> unsupported[] = {{o.simulate > 0, "--simulate"},
                                                      {o.offload != "none", "--offload"},
                                                      {o.shard_group > 0, "--shard-group"},
                                                      {o.units != "block", "--units layer"}};
  for (const auto& [asked, option] : unsupported)
    if (experts > 0 && asked)
      refuse(fmt::format("{} with --model {}: a mixture of experts is planned by formula, and without it; leave it out",
                         option, o.model));
}

/// Options that --validate and --card exclude.
const std::vector<std::string> kOfATask{
    "--model",           "--cluster",        "--global-batch", "--sequence",  "--memory",      "--top",
    "--explain",         "--score",          "--simulate",     "--fast",      "--prices",      "--attention",
    "--overlap-scatter", "--overlap-gather", "--cp",           "--imbalance", "--shard-group", "--fp32-gradients",
    "--offload",         "--precision",      "--load-rate"};

}  // namespace

void refuse(const std::string& sentence) { throw Error(Verdict::usage, sentence); }

const std::string& word_of(Offload offload) { return kOffloads[static_cast<std::size_t>(offload)]; }

Task task_of(const PlanOptions& o) {
  Task task = preset_task(o.model, o.cluster, o.global_batch, kMachines);
  if (o.global_batch < 1 || o.global_batch > 1 << 20)
    refuse("--global-batch: sequences per step, from 1 to 1048576, such as 1536");
  const auto context = static_cast<int>(task.model.context);
  const bool any_length = task.model.architecture.positions == PositionKind::rotary;
  if (o.sequence < 0 || o.sequence > (any_length ? kLongest : context))
    refuse(fmt::format("--sequence {}: {} has positions for 1 to {} tokens", o.sequence, o.model,
                       any_length ? kLongest : context));
  if (o.sequence > 0) task.length = static_cast<std::size_t>(o.sequence);
  task.model.context = std::max(task.model.context, task.length);
  task.cps = sharers_of(o.cp, task.cluster.gpus);
  if (o.shard_group < 0 || o.shard_group > task.cluster.gpus)
    refuse(fmt::format("--shard-group {}: how many of {} GPUs hold the state of ZeRO-3 once; 0: all", o.shard_group,
                       task.cluster.gpus));
  task.shard_group = o.shard_group;
  if (o.units != "block" && o.units != "layer")
    refuse(fmt::format("--units {}: must be block or layer, the unit that ZeRO-2 and 3 reduce and gather", o.units));
  task.units = o.units;
  task.overlap_scatter = o.overlap_scatter;
  task.overlap_gather = o.overlap_gather;
  task.model.fp32_gradients = o.fp32_gradients;
  if (o.prices != "lab" && o.prices != "library")
    refuse(fmt::format(
        "--prices {}: must be lab (the course's own collectives) or library (NCCL, cuBLAS, FlashAttention)", o.prices));
  check_known("--attention", o.attention, std::vector<std::string>{"flash", "materialised"});
  if (o.attention == "materialised") {
    if (o.prices == "library") refuse("--attention materialised needs the lab's own operations: --prices lab");
    task.model.attention = AttentionKind::materialised;
  }
  if (o.prices == "library") task.cluster.machine = task.cluster.machine.as_library();
  check_known("--precision", o.precision, std::vector<std::string>{"bf16", "fp8"});
  if (o.precision == "fp8") {
    if (o.simulate > 0)
      refuse("--simulate: the simulator has no products of 8 bits; --precision fp8 is by formula alone");
    use_fp8(task, "tensorwise", /*gathered=*/true);
  }
  task.offload = offload_of(o, task.cluster.machine);
  task.load_rate = o.load_rate;
  if (o.load_rate > 0 && o.simulate > 0)
    refuse(fmt::format("--simulate {}: the simulated step loads nothing; --load-rate is by formula alone", o.simulate));
  check_mixture(o, task);
  task.imbalance = o.imbalance;
  if (!o.memory.empty()) task.memory_bytes = static_cast<double>(parse_bytes(o.memory));
  return task;
}

void add_options(CommandLine& line, PlanOptions& o) {
  line.add("--model", o.model, "gpt3-175b, llama3-405b, mixtral-8x7b, …, or a config.json");
  line.add("--cluster", o.cluster, "NAMExN: N nodes of a machine file");
  line.add("--global-batch", o.global_batch, "sequences of a step, over all replicas");
  line.add("--sequence", o.sequence, "tokens of each; 0: the model's context");
  line.add("--cp", o.cp, "ranks that share each sequence (ring attention), the numbers to consider: 1,2,4,8");
  line.add("--imbalance", o.imbalance,
           "of a mixture of experts: rows of the busiest rank's experts, in multiples of the average; every ep is "
           "considered, and no token dropped");
  line.add("--shard-group", o.shard_group,
           "ZeRO-3 (hybrid sharding): number of neighbouring ranks that hold one copy of the state, such as a node's; "
           "0: all");
  line.add("--memory", o.memory, "of a GPU, such as 80GB; by default the machine file's");
  line.add("--prices", o.prices,
           "costs of the course's own operations (lab), or what NCCL, cuBLAS and FlashAttention reach (library)");
  line.add("--attention", o.attention, "flash, or materialised: all probabilities kept, or recomputed (selective)");
  line.add("--units", o.units, "what ZeRO-2 and 3 reduce and gather at once: block, or layer, which needs less memory");
  line.add("--overlap-scatter", o.overlap_scatter, "as in ./lab train, for all plans with sequence parallelism");
  line.add("--overlap-gather", o.overlap_gather, "as in ./lab train, for all plans with ZeRO-1 or 2");
  line.add("--fp32-gradients", o.fp32_gradients,
           "gradients are held and summed in fp32, as by Megatron-LM in bf16; of ZeRO-0 and 1");
  line.add("--precision", o.precision, "of a block's products: bf16, or fp8 with torchao's casts and library prices");
  line.add("--offload", o.offload,
           "what is in the host's memory: none, optimizer (ZeRO-Offload: gradients and optimizer of ZeRO-2 and 3, with "
           "Adam on the host), or parameters (ZeRO-Infinity: those of ZeRO-3, too); by formula alone");
  line.add("--load-rate", o.load_rate,
           "tokens per second that each rank's data loader delivers, ahead of use; 0: as many as a step needs",
           Real{0, 1e15});
  line.add("--top", o.top, "how many plans to list");
  line.add("--explain", o.explain, "the best strategy with these fields, or why not: dp=8,tp=8,pp=16");
  line.add("--score", o.score, "compare a strategy of your own, a JSON file, with the best");
  line.add("--simulate", o.simulate, "simulate this many of the listed plans too, to check the predictions");
  line.add("--fast", o.fast, "formulas only; otherwise the best plans are simulated, and ranked by the result");
  line.add("--validate", o.validate, "only compare predictions with published runs, curves and bubbles");
  line.add("--table", o.table, "with --validate: only this file's rows, in the format of bench/published/predict");
  line.add("--without", o.without, "with --validate: predict without a term, or several with commas; list: names them");
  line.add("--card", o.card, "a design card of week 25; without --answer or --explain: print its task (./lab card)");
  line.add("--answer", o.answer, "with --card: a file with an answer to check");
  line.add("--price", o.price, "of one GPU for an hour, in any currency (2.50): what the training costs");
  line.add("--json", o.json, "also into this file");
  line.add("--csv", o.csv, "also into this file");
  line.exclude("--validate", kOfATask);
  std::vector<std::string> not_of_a_card = kOfATask;
  std::erase(not_of_a_card, "--explain");
  line.exclude("--card", not_of_a_card);
}

}  // namespace lockstep::plan
