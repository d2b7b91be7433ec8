// Compares ZeRO's stages: memory for parameters, gradients and optimizer state, by formula and by the ledger; bytes
// sent; and the time of a step, relative to plain data parallelism (stage 0).
//
//   ./lab bench zero --ranks 1,2,4,8 --json zero.json
//   ./lab bench zero --params 100e6 --ranks 2                  really allocated; also --backend mpi
//   ./lab bench zero --params 7e9,13e9 --phantom --ranks 8 --machine dgx-a100
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/programs/zero_step.hpp"
#include "bench/support/bench.hpp"
#include "common/support/host/host.hpp"
#include "common/support/json/row_fields.hpp"
#include "common/support/stats/stats.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/storage.hpp"
#include "common/support/text/units.hpp"
#include "labs/week22_zero/memory_calculator.hpp"

namespace lockstep::bench {
namespace {

struct ZeroOptions {
  std::string model = "tiny";
  std::vector<std::string> params;
  std::vector<std::string> stages{"0", "1", "2", "3"};
  std::string dtype = "bf16";
  int batch = 1;
  int sequence = 0;
  int microbatches = 1;
  std::string wrap = "block";
  int prefetch = 1;
  bool no_overlap = false;
  std::string bucket_bytes;
  bool memory_only = false;
};

std::vector<int> stages_of(const ZeroOptions& o) {
  std::vector<int> stages;
  for (const std::string& text : o.stages) stages.push_back(whole_in("--stages", text, 0, 3));
  return stages;
}

/// A model with its name.
struct Named {
  std::string name;
  GptConfig config;
};

std::vector<Named> models_of(const ZeroOptions& o) {
  std::vector<Named> models;
  for (const std::string& text : o.params)
    models.push_back({text, model_of_size(number_in("--params", text, 1, 1e18))});
  if (models.empty()) models.push_back({o.model, gpt_preset(o.model)});
  for (Named& model : models) model.config.storage = parse_storage(o.dtype);
  return models;
}

/// True if a model takes too long to compute on a laptop's cores: its memory is measured in one step, and it is not
/// timed.
bool large(const GptConfig& model) { return model.parameters() > 20'000'000; }

ZeroShape shape_of(const ZeroOptions& o, GptConfig model, int stage, bool phantom) {
  const std::size_t gradients = model.parameters() * bytes_of(model.storage);
  const int usual = large(model) && !phantom ? 16 : 0;
  ZeroShape shape{step_shape(model, o.batch, o.sequence ? o.sequence : usual)};
  shape.microbatches = o.microbatches;
  shape.engine = {.zero = stage,
                  .bucket_bytes = o.bucket_bytes.empty()
                                      ? std::min<std::size_t>(std::size_t{25} << 20, gradients / 8 + 1)
                                      : parse_bytes(o.bucket_bytes),
                  .wrapping = week25::parse_wrapping(o.wrap),
                  .overlap = !o.no_overlap,
                  .prefetch = o.prefetch,
                  .reduce = shape.model.storage};
  return shape;
}

/// Throws if this computer cannot hold all ranks' state and activations.
void check_memory(const RunOptions& options, const ZeroShape& shape) {
  if (options.phantom) return;
  const int stage = shape.engine.zero;
  const auto parameters = static_cast<double>(shape.model.parameters());
  const double state =
      week22::model_state(parameters, stage, options.ranks, week22::recipe_of(shape.model.storage)).total_bytes();
  const double rank = state + static_cast<double>(activation_bytes(shape.model, shape.sequences, shape.length));
  const double here = read_host().memory_bytes;
  if (here > 0 && rank * options.ranks > 0.9 * here)
    throw Error(Verdict::usage, fmt::format("stage {} of {:.3g} parameters needs {} on each of {} ranks, but this "
                                            "computer has {}: use fewer, or --phantom",
                                            stage, parameters, format_bytes(rank), options.ranks, format_bytes(here)));
}

void print_memory(const std::vector<Row>& rows) {
  fmt::print("{:>5} {:>5}  {:<10} {:<8} {:>18} {:>18}  {}\n", "stage", "ranks", "category", "moment", "formula, bytes",
             "measured", "why they differ");
  for (const Row& row : rows)
    if (text(row, "category") != to_string(Category::activation))
      fmt::print("{:>5} {:>5}  {:<10} {:<8} {:>18.0f} {:>18.0f}  {}\n", number(row, "stage"), number(row, "ranks"),
                 text(row, "category"), text(row, "moment"), number(row, "predicted_bytes"),
                 number(row, "measured_bytes"), text(row, "reason"));
}

/// Prints bytes of parameters, gradients and optimizer state at rest, by stage.
void print_totals(const std::vector<Row>& rows) {
  fmt::print("model state of one rank, at rest:\n");
  double bytes = 0;
  for (const Row& row : rows) {
    if (text(row, "moment") != "resident") continue;
    if (text(row, "category") != to_string(Category::activation)) {
      bytes += number(row, "measured_bytes");
      continue;
    }
    fmt::print("  stage {}, p = {}  {:.4g} GB\n", number(row, "stage"), number(row, "ranks"), bytes / 1e9);
    bytes = 0;  // activations are the last kind of a stage
  }
}

void weigh_all(Bench& bench, const ZeroOptions& o) {
  for (const Named& model : models_of(o)) {
    std::vector<Row> all;
    for (int ranks : bench.ranks())
      for (int stage : stages_of(o)) {
        const RunOptions options = bench.run_options(ranks);
        const ZeroShape shape = shape_of(o, model.config, stage, options.phantom);
        check_memory(options, shape);
        for (Row& row : weigh(options, shape)) {
          row.set("model", model.name).set("parameters", model.config.parameters()).set("dtype", o.dtype);
          bench.report(row);
          all.push_back(std::move(row));
        }
      }
    if (!is_judge()) continue;
    fmt::print("{}: {} parameters in {}\n", model.name,
               format_parameters(static_cast<double>(model.config.parameters())), o.dtype);
    print_memory(all);
    print_totals(all);
  }
}

/// Only rank 0 has samples; the rows of other processes are not written.
double middle(const std::vector<double>& samples) { return samples.empty() ? std::nan("") : median(samples).value; }

/// Times steps of all stages, in turns.
void time_all(Bench& bench, const ZeroOptions& o) {
  for (const Named& model : models_of(o)) {
    if (large(model.config) && !bench.run_options(1).phantom) {
      say("{}: too large to be timed with real arithmetic; use --phantom\n", model.name);
      continue;
    }
    for (int ranks : bench.ranks()) {
      const RunOptions options = bench.run_options(ranks);
      const ZeroShape shape = shape_of(o, model.config, 0, options.phantom);
      const std::vector<int> stages = stages_of(o);
      std::vector<Contender> contenders;
      auto waits = std::make_shared<std::vector<Waits>>(stages.size());
      for (std::size_t i = 0; i < stages.size(); ++i)
        contenders.push_back(
            {.name = fmt::format("zero{}", stages[i]),
             .prepare = [=, shape = shape_of(o, model.config, stages[i], options.phantom)](Rank me, Purpose purpose) {
               return prepare_zero(me, shape, purpose, &(*waits)[i]);
             }});
      bench.add(
          fmt::format("{}/{} ranks", model.name, ranks), options, contenders,
          [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
            const GptConfig& config = shape.model;
            const Waits& wait = (*waits)[i];
            const auto recipe = week22::recipe_of(config.storage);
            const double seconds = group[i].seconds.value;
            row.set("stage", stages[i]).set("model", model.name).set("parameters", config.parameters());
            row.set("dtype", o.dtype).set("wrap", o.wrap).set("prefetch", o.prefetch).set("overlap", !o.no_overlap);
            row.set("tokens_per_rank", shape.tokens() * static_cast<std::size_t>(o.microbatches));
            row.set("microbatches", o.microbatches);
            row.set("bytes_sent_per_rank", group[i].bytes_sent_per_rank_max);
            row.set("predicted_bytes_sent_per_rank", week22::bytes_sent(static_cast<double>(config.parameters()),
                                                                        stages[i], ranks, o.microbatches, recipe));
            row.set("exposed_seconds", middle(wait.exposed));
            row.set("communication_seconds", middle(wait.communication));
            row.set("optimizer_seconds", middle(wait.optimizer));
            row.set("tokens_per_second", static_cast<double>(shape.tokens()) * o.microbatches * ranks / seconds);
            const auto plain = std::find(stages.begin(), stages.end(), 0);
            row.set("throughput_of_stage0",
                    plain == stages.end()
                        ? std::nan("")
                        : group[static_cast<std::size_t>(plain - stages.begin())].seconds.value / seconds);
          });
    }
  }
}

void measure_zero(Bench& bench, const ZeroOptions& o) {
  weigh_all(bench, o);
  if (!o.memory_only) time_all(bench, o);
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::ZeroOptions o;
  auto declare = [&](CommandLine& line) {
    line.add("--model", o.model, "a preset, as for ./lab train");
    line.add("--params", o.params,
             "instead: a GPT with about this many parameters (100e6); separate several with commas");
    line.add("--stages", o.stages, "ZeRO's stages 1, 2 and 3; 0 is plain data parallelism");
    line.add("--dtype", o.dtype, "type of parameters and gradients: fp32, bf16 or fp16; AdamW keeps fp32");
    line.add("--batch", o.batch, "sequences per rank and microbatch", kSequences);
    line.add("--sequence", o.sequence,
             "tokens per sequence; 0: the model's context, or 16 where a large model is really allocated", kTokens);
    line.add("--microbatches", o.microbatches, "microbatches per rank and step", kMicrobatches);
    line.add("--wrap", o.wrap, "units of stages 2 and 3: model, block, layer, or a minimum number of elements");
    line.add("--prefetch", o.prefetch, "stage 3: number of units gathered ahead of their use", Whole{});
    line.add("--no-overlap", o.no_overlap, "communicate on the main queue");
    line.add("--bucket-bytes", o.bucket_bytes, "gradient buckets of stages 0 and 1; default: as in ./lab bench ddp");
    line.exclude("--params", {"--model"});
    line.add("--memory-only", o.memory_only, "run one step of each, without timing");
  };
  return bench::bench_main("zero", "ZeRO's stages: memory, traffic and time.", argc, argv, declare,
                           [&](bench::Bench& bench) { bench::measure_zero(bench, o); });
}
