// ./lab memory: what training a model needs of each GPU's memory, for every ZeRO stage and number of GPUs, by the
// formulas of exercise 22.1. Nothing runs.
//
//   ./lab memory --params 7e9 --ranks 8
//   ./lab memory --params 7.5e9,128e9,1e12 --ranks 1,4,16,64,256,1024      Table 1 of the ZeRO paper
//   ./lab memory --model gpt3-175b --batch 1 --zero 3 --plot memory.svg
//   ./lab memory --model gpt3-13b --ranks 8 --recipe deepspeed     what a tool holds, or says that it does
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "common/error.hpp"
#include "common/gpt/data/model_file.hpp"
#include "common/gpt/model/gpt.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/support/json/repeatable.hpp"
#include "common/support/json/results.hpp"
#include "common/support/json/row_fields.hpp"
#include "common/support/text/command_line.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/run_program.hpp"
#include "common/support/text/storage.hpp"
#include "common/support/text/units.hpp"
#include "labs/trainer/plan/pieces.hpp"
#include "labs/week22_zero/memory_calculator.hpp"
#include "tools/calculators/plot.hpp"
#include "tools/calculators/recipes.hpp"

namespace lockstep::bench {
namespace {

const std::string kMachines = LOCKSTEP_SOURCE_DIR "/bench/machines";

struct MemoryOptions {
  std::vector<std::string> params;
  std::string model;
  std::vector<std::string> stages{"0", "1", "2", "3"};
  std::vector<std::string> ranks{"1", "2", "4", "8", "16", "64", "256", "1024"};
  std::string dtype = "bf16", recipe;
  bool no_master = false;
  int batch = 0;
  int sequence = 0;
  int ep = 1;
  std::string json, csv, plot;
  std::string command_line;  // that repeats it
};

bool has_units_for(const Machine& machine, DType type) {
  const auto peak = [&](DType t) { return machine.peak_flop_per_second[static_cast<std::size_t>(t)]; };
  return peak(type) > peak(DType::f32);
}

struct Gpu {
  std::string name;
  double bytes = 0;
};

/// The GPUs of the machine files, where the numbers have their sources; without units for the type there is none of it
/// (bf16 on a V100), and its peak is fp32's.
std::vector<Gpu> known_gpus(DType type) {
  std::vector<Gpu> gpus;
  for (const auto& [name, file] :
       {std::pair{"V100", "dgx-1v"}, {"A100", "dgx-a100"}, {"H200", "dgx-h200"}, {"B200", "dgx-b200"}})
    if (const Machine machine = find_machine(file, kMachines); type == DType::f32 || has_units_for(machine, type))
      gpus.push_back({name, machine.memory_bytes});
  return gpus;
}

/// A model, by name, with its activations on one GPU (0: not asked for).
struct Subject {
  std::string name;
  double parameters = 0;
  double activation_bytes = 0;
  double experts = 0, active = 0;  ///< of the parameters: in experts, and those that a token meets
};

/// Activations of one block that is not GPT-2's, of which 22.1's formula speaks.
double block_bytes(GptConfig model, int batch, std::size_t length) {
  const auto of_layers = [&](std::size_t layers) {
    model.layers = layers;
    return static_cast<double>(activation_bytes(model, static_cast<std::size_t>(batch), length));
  };
  const bool mixture = model.architecture.experts > 0;
  return of_layers(2) - of_layers(1) +
         (mixture ? plan::mixture_bytes(model, static_cast<std::size_t>(batch) * length, /*imbalance=*/1) : 0);
}

std::vector<Subject> subjects_of(const MemoryOptions& o) {
  std::vector<Subject> subjects;
  for (const std::string& text : o.params) subjects.push_back({text, number_in("--params", text, 1, 1e18)});
  if (o.sequence > 0 && o.batch == 0)
    throw Error(Verdict::usage, "--sequence is the length of --batch's sequences: add --batch");
  if (o.model.empty()) {
    if (o.batch > 0)
      throw Error(Verdict::usage,
                  "--batch needs activations, which depend on layers and heads: give --model, not --params");
    if (subjects.empty()) throw Error(Verdict::usage, "give --params 7e9, or --model gpt3-175b");
    return subjects;
  }
  GptConfig model = find_model(o.model);
  const std::size_t experts = model.architecture.experts;
  if (o.ep < 1 || (o.ep > 1 && (experts == 0 || experts % static_cast<std::size_t>(o.ep) != 0)))
    throw Error(Verdict::usage, fmt::format("--ep {}: {} has {}", o.ep, o.model,
                                            experts == 0 ? "no experts"
                                                         : fmt::format("{} experts, which do not divide "
                                                                       "over so many ranks",
                                                                       experts)));
  const std::size_t length = o.sequence ? static_cast<std::size_t>(o.sequence) : model.context;
  const week22::LayerShape layer{.positions = static_cast<double>(length),
                                 .sequences = static_cast<double>(o.batch),
                                 .channels = static_cast<double>(model.d_model),
                                 .heads = static_cast<double>(model.heads),
                                 .dropout = false,
                                 .flash = true};
  model.storage = DType::bf16;
  const double bytes = model.architecture == Architecture() ? week22::activation_bytes_per_layer(layer)
                                                            : block_bytes(model, o.batch, length);
  const std::size_t in_experts = model.layers * experts * model.expert_parameters();
  subjects.push_back({o.model, static_cast<double>(model.parameters()), static_cast<double>(model.layers) * bytes,
                      static_cast<double>(in_experts), static_cast<double>(model.active_parameters())});
  return subjects;
}

/// "120", "52.5", "1.88": three digits, as the paper prints.
std::string gigabytes(double bytes) {
  const double value = bytes / 1e9;
  if (value >= 100) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, value >= 10 ? 1 : value >= 1 ? 2 : 3);
}

std::string holders(double bytes, const std::vector<Gpu>& gpus) {
  for (const Gpu& gpu : gpus)
    if (bytes <= gpu.bytes) return fmt::format("{} ({:.0f} GB)", gpu.name, gpu.bytes / 1e9);
  return "none";
}

void print(const std::vector<Row>& rows, const MemoryOptions& o, week22::Recipe recipe, bool activations) {
  const auto bytes = [](const Row& row, const char* name) { return gigabytes(number(row, name)); };
  std::string model;
  for (const Row& row : rows) {
    if (const auto name = text(row, "model"); name != model) {
      model = name;
      const auto active = number(row, "active_parameters");
      const std::string mixture = active > 0 ? fmt::format(", {} of which a token meets, experts shared by {}",
                                                           format_parameters(active), counted(o.ep, "rank"))
                                             : "";
      fmt::print("{}: {} parameters{} in {}, GB on each GPU\n{:>5} {:>6} {:>11} {:>10} {:>10}{} {:>8}  {}\n", name,
                 format_parameters(number(row, "parameters")), mixture, o.dtype, "stage", "ranks", "parameters",
                 "gradients", "optimizer", activations ? fmt::format(" {:>12}", "activations") : "", "total",
                 "smallest GPU that fits");
    }
    fmt::print("{:>5} {:>6} {:>11} {:>10} {:>10}{} {:>8}  {}\n", number(row, "stage"), number(row, "ranks"),
               bytes(row, "parameter_bytes"), bytes(row, "gradient_bytes"), bytes(row, "optimizer_bytes"),
               activations ? fmt::format(" {:>12}", bytes(row, "activation_bytes")) : "", bytes(row, "total_bytes"),
               text(row, "fits"));
  }
  fmt::print("{:g} bytes per parameter: {:g} weight + {:g} gradient + {:g} fp32 copy + {:g} m and v. ",
             recipe.parameter + recipe.gradient + recipe.optimizer(), recipe.parameter, recipe.gradient, recipe.master,
             recipe.moments);
  if (recipe.master > 0)
    fmt::print(
        "Texts that count 12 leave out the fp32 copy (--no-master): then small updates of 16-bit weights are lost.\n");
  else
    fmt::print("{}\n", recipe.parameter < 4 ? "Without an fp32 copy small updates of 16-bit weights are lost."
                                            : "In fp32 the weights are their own master.");
  fmt::print(
      "Not included (./lab bench zero measures them): one or two gathered units in stage 3, gradients being reduced in "
      "stages 2 and 3{}.\n",
      activations ? "" : ", activations");
}

/// Parameters of the largest tensor that a layer reads at once; 0 without a model.
double largest_layer(const MemoryOptions& o) {
  double largest = 0;
  if (!o.model.empty())
    for (const Parameter& tensor : gpt_parameter_table(find_model(o.model)))
      largest = std::max(largest, static_cast<double>(tensor.size));
  return largest;
}

/// --recipe: each kind of bytes on a line, by stage.
void explain(const MemoryOptions& o, const std::vector<Subject>& subjects) {
  const ToolRecipe& recipe = find_recipe(o.recipe);
  const Machine machine = find_machine("dgx-a100", kMachines);
  for (const Subject& subject : subjects)
    for (const std::string& ranks_text : o.ranks) {
      const int ranks = count_in("--ranks", ranks_text, 1'000'000'000);
      fmt::print("{}", format_recipe(recipe, subject.name, subject.parameters, ranks, largest_layer(o), machine));
    }
}

void add(week22::ModelState& state, const week22::ModelState& more) {
  state.parameter_bytes += more.parameter_bytes;
  state.gradient_bytes += more.gradient_bytes;
  state.optimizer_bytes += more.optimizer_bytes;
}

void calculate(const MemoryOptions& o) {
  const std::vector<Subject> subjects = subjects_of(o);
  if (!o.recipe.empty()) return explain(o, subjects);
  const week22::Recipe recipe = week22::recipe_of(parse_storage(o.dtype), !o.no_master);
  const std::vector<Gpu> gpus = known_gpus(parse_storage(o.dtype));
  check_plot(o.plot);
  for (const std::string* path : {&o.json, &o.csv})
    if (!path->empty()) check_writable(*path);
  std::vector<Row> rows;
  for (const Subject& subject : subjects)
    for (const std::string& stage_text : o.stages)
      for (const std::string& ranks_text : o.ranks) {
        const int ranks = count_in("--ranks", ranks_text, 1'000'000'000);
        const int stage = whole_in("--zero", stage_text, 0, 3);
        if (ranks % o.ep != 0) continue;
        week22::ModelState state = week22::model_state(subject.parameters - subject.experts, stage, ranks, recipe);
        if (subject.experts > 0) add(state, week22::model_state(subject.experts / o.ep, stage, ranks / o.ep, recipe));
        const double total = state.total_bytes() + subject.activation_bytes;
        Row& row = rows.emplace_back();
        row.set("model", subject.name).set("parameters", subject.parameters).set("stage", stage).set("ranks", ranks);
        row.set("parameter_bytes", state.parameter_bytes).set("gradient_bytes", state.gradient_bytes);
        row.set("optimizer_bytes", state.optimizer_bytes).set("activation_bytes", subject.activation_bytes);
        row.set("total_bytes", total);
        double sent = week22::bytes_sent(subject.parameters - subject.experts, stage, ranks, 1, recipe);
        if (subject.experts > 0) sent += week22::bytes_sent(subject.experts / o.ep, stage, ranks / o.ep, 1, recipe);
        row.set("bytes_sent_per_rank", sent);
        if (subject.experts > 0) row.set("active_parameters", subject.active).set("ep", o.ep);
        row.set("fits", holders(total, gpus));
      }
  if (rows.empty()) throw Error(Verdict::usage, fmt::format("--ep {} divides none of the --ranks", o.ep));
  print(rows, o, recipe, o.batch > 0);
  Context context = Context::here();
  context.more.set("command", "memory")
      .set("command_line", o.command_line)
      .set("dtype", o.dtype)
      .set("master", recipe.master > 0);
  std::string known;
  for (const Gpu& gpu : gpus) known += fmt::format("{}{} {:g}", known.empty() ? "" : ", ", gpu.name, gpu.bytes);
  context.more.set("gpu_memory_bytes", known);
  if (!o.json.empty()) write_results(o.json, context, rows);
  if (!o.csv.empty()) write_csv(o.csv, rows);
  if (o.plot.empty()) return;
  plot("memory.py", o.plot, [&](const std::string& data) { write_results(data, context, rows); });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::MemoryOptions o;
  return run_program("lab memory: ", [&] {
    CommandLine line("./lab memory", "GPU memory for training, by ZeRO stage and number of GPUs.");
    line.add("--params", o.params, "parameters of the model (7e9); separate several with commas");
    line.add("--model", o.model,
             "instead: a preset or a config.json, as for ./lab train; with --batch also its activations");
    line.add("--ep", o.ep,
             "of a mixture of experts: ranks that share them; gradients and optimizer of an expert are divided over "
             "ranks / ep. With --batch, experts get equally many rows, and none is dropped",
             Whole{1});
    line.add("--zero", o.stages, "stages; 0 is plain data parallelism");
    line.add("--ranks", o.ranks, "numbers of GPUs");
    line.add("--dtype", o.dtype, "type of parameters and gradients: fp32, bf16 or fp16");
    line.add("--no-master", o.no_master, "no fp32 copy of 16-bit weights");
    line.add("--recipe", o.recipe,
             "instead: what a tool holds for each parameter, and why tools differ: megatron, deepspeed, "
             "deepspeed-offload, deepspeed-infinity, fsdp2, nanotron, or fp32-grads");
    line.add("--batch", o.batch, "sequences per GPU, for activations (flash attention, no dropout, no recomputation)",
             Whole{});
    line.add("--sequence", o.sequence, "tokens per sequence; 0: the model's context", Whole{});
    line.add("--json", o.json, "JSON file with the rows and their context");
    line.add("--csv", o.csv, "rows");
    line.add("--plot", o.plot, "a figure: .svg, .pdf or .png");
    line.exclude("--model", {"--params"});
    line.exclude("--params", {"--ep"});
    line.exclude("--recipe", {"--ep", "--zero", "--dtype", "--no-master", "--batch", "--json", "--csv", "--plot"});
    if (!line.parse(argc, argv)) return 0;
    o.command_line = repeatable("./lab memory", argc, argv);
    bench::calculate(o);
    return 0;
  });
}
