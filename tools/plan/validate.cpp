#include "tools/plan/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/stats/stats.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/files.hpp"
#include "labs/trainer/plan/search.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "tools/plan/software.hpp"

namespace lockstep::plan {

namespace {

using week25::Strategy;

/// A node has `ports` of those that the file gives it, one a rank: each rank has its part of them. 0: all.
void use_ports(Machine& machine, int ports) {
  if (ports > 0)
    machine.levels.back().bytes_per_second *=
        static_cast<double>(ports) / machine.levels[machine.levels.size() - 2].ranks;
}

Task task_of(const PublishedRun& run, const std::string& machines) {
  Task task{.model_name = run.name, .model = run.model};
  task.cluster = find_cluster(fmt::format("{}x{}", run.machine, std::max(1, run.gpus / 8)), machines);
  task.cluster.gpus = run.gpus;
  use_ports(task.cluster.machine, run.node_ports);
  task.global_batch = run.batch;
  task.length = run.length;
  task.memory_bytes = task.cluster.machine.memory_bytes;
  task.units = run.units;
  task.overlap = run.overlap;
  task.overlap_tensor = run.overlap_tensor;
  task.overlap_scatter = run.overlap_scatter;
  task.overlap_gather = run.overlap_gather;
  task.stops_early = run.stops_early;
  task.fp32_reduction = run.fp32_reduction;
  task.keeps_products = run.keeps_products;
  task.shard_group = run.shards;
  task.copied_bytes = run.copied_bytes;
  task.imbalance = run.imbalance;
  task.one_pool = true;
  return task;
}

/// All strategies that the source may mean, where it leaves some of it open.
std::vector<Strategy> ways(const PublishedRun& run, const Task& task) {
  std::vector<Strategy> all;
  for (const int b : {1, 2, 4, 8, 16}) {
    if (!run.any_microbatch && b > 1) break;
    Strategy strategy = run.strategy;
    if (run.any_microbatch) strategy.microbatch = b;
    const int pieces = static_cast<int>(run.model.layers) + 2;  // why_not refuses chunks without any
    for (int chunks = 1; chunks <= (run.any_schedule && strategy.pp > 1 ? pieces / strategy.pp : 1); ++chunks) {
      if (chunks > 1) strategy.schedule = "interleaved", strategy.chunks = chunks;
      if (!why_not(task, strategy)) all.push_back(strategy);
    }
  }
  return all;
}

struct Predicted {
  double seconds = 0;
  Strategy strategy;
  double memory_bytes = 0;   ///< of the fullest rank
  week22::ModelState state;  ///< of that
};
/// Predicts the fastest of the ways that fit the memory; where none fits, of all.
Predicted predict(const Task& task, const std::vector<Strategy>& ways) {
  Predictor predictor(task);
  Predicted best, any;
  for (const Strategy& strategy : ways) {
    const week25::Rated rated = predictor.rate(strategy);
    const double seconds = rated.time.total();
    const Predicted here{seconds, strategy, rated.memory.total_bytes(), rated.memory.state};
    if (any.seconds == 0 || seconds < any.seconds) any = here;
    if (!predictor.too_large(rated) && (best.seconds == 0 || seconds < best.seconds)) best = here;
  }
  return best.seconds > 0 ? best : any;
}

double simple_seconds(const PublishedRun& run, const Machine& machine, double utilisation) {
  const double tokens = static_cast<double>(run.batch) * static_cast<double>(run.length);
  const double flop = (run.strategy.recompute ? 8 : 6) * static_cast<double>(run.model.active_parameters()) * tokens;
  const double peak = machine.peak(DType::bf16);
  return flop / (run.gpus * peak * utilisation);
}

/// The share of PyTorch's allocator's memory that is in no tensor: the mean of eight models on A100 80 GB (GMLake,
/// arXiv 2401.08156, abstract). And the memory that nvidia-smi shows of a process that only began (pytorch/pytorch
/// issue 34323).
constexpr double kFragmentation = 0.15, kContextBytes = 781 << 20;

Validated validate_run(PublishedRun run, const std::string& machines, double utilisation, const Without& without) {
  without.from(run);
  Task task = task_of(run, machines);
  const std::vector<Strategy> all = ways(run, task);
  if (all.empty()) {
    const auto refusal = why_not(task, run.strategy);
    throw Error(Verdict::usage, fmt::format("{}: {}", run.name, refusal ? refusal->sentence : "nothing can be"));
  }
  Validated row{.name = run.name, .published = run.seconds};
  row.simple = simple_seconds(run, task.cluster.machine, utilisation);
  row.file = predict(task, all).seconds;
  task.cluster.machine = task.cluster.machine.as_library(run.attention, run.kernel);
  without.from(task.cluster.machine);
  if (!without.has("slowest-card")) wait_for_slowest(task.cluster.machine, run.gpus);
  task.cluster.machine.library->host = run.host;
  task.unfused = unfused(run.unfused, run.model);
  if (!run.fp8.empty()) use_fp8(task, run.fp8, run.fp8_gather);
  const Predicted library = predict(task, all);
  row.library = library.seconds;
  if (!without.has("update"))
    row.library += update_bytes(run.unfused) * library.state.optimizer_bytes / 12 /  // fp32 parameter, m and v
                   task.cluster.machine.library->memory_bytes_per_second;
  if (run.any_microbatch || run.any_schedule)
    row.chosen =
        fmt::format("microbatch {}, {}", library.strategy.microbatch, counted(library.strategy.chunks, "chunk"));
  row.memory_bytes = library.memory_bytes + run.buffer_bytes;
  if (run.two_gradients) row.memory_bytes += library.state.gradient_bytes / 2;
  if (run.copied_gradients) row.memory_bytes += library.state.optimizer_bytes / 3;
  row.published_memory_bytes = run.memory_bytes;
  const auto add = [&](const std::string& words) { row.chosen += (row.chosen.empty() ? "" : ", ") + words; };
  if (row.memory_bytes > task.memory_bytes)
    add(fmt::format("{:.0f} GB of {:.0f}", row.memory_bytes / 1e9, task.memory_bytes / 1e9));
  if (run.memory_bytes > 0) {
    row.memory_bytes = row.memory_bytes / (1 - kFragmentation) + kContextBytes;
    add(fmt::format("{:.1f} of {:.1f} GB used ({:+.1f}%)", row.memory_bytes / 1e9, run.memory_bytes / 1e9,
                    100 * row.memory_error()));
  }
  return row;
}

/// t = α + nβ, of least relative squares.
struct Fit {
  double alpha = 0, beta = 0;
};
Fit fit_of(const std::vector<PublishedSum>& points) {
  double w = 0, wn = 0, wnn = 0, wt = 0, wnt = 0;
  for (const PublishedSum& point : points) {
    const double weight = 1 / (point.seconds * point.seconds), n = point.bytes, t = point.seconds;
    w += weight, wn += weight * n, wnn += weight * n * n, wt += weight * t, wnt += weight * n * t;
  }
  const double determinant = w * wnn - wn * wn;
  return {(wnn * wt - wn * wnt) / determinant, (w * wnt - wn * wt) / determinant};
}

Validated validate_sum(const PublishedSum& sum, const std::string& machines, const Fit& line, const Without& without) {
  Machine machine = find_machine(sum.machine, machines);
  without.from(machine);
  use_ports(machine, sum.node_ports);
  Validated row{.name = fmt::format("{} ranks, {:.0f} KiB", sum.ranks, sum.bytes / 1024), .published = sum.seconds};
  row.file = week21::ring_all_reduce_seconds(week21::cost_model(machine, sum.ranks), sum.ranks, sum.bytes);
  row.library = library_all_reduce_seconds(machine, sum.ranks, sum.bytes);
  row.simple = line.beta > 0 ? line.alpha + sum.bytes * line.beta
                             : 2.0 * (sum.ranks - 1) / sum.ranks * sum.bytes / machine.levels.back().bytes_per_second;
  return row;
}

/// (cost − m(F + B + W)) / cost, cost the longest stage's own span.
Validated validate_bubble(const PublishedBubble& published) {
  StepTimes times = published.times;  // of a microbatch on a stage: each chunk has its part
  for (double* part : {&times.forward, &times.input_gradient, &times.weight_gradient}) *part /= published.shape.chunks;
  const auto stages = time_schedule(week24::make_schedule(published.schedule, published.shape), published.shape, times);
  double cost = 0;
  for (const auto& stage : stages) cost = std::max(cost, stage.back().end - stage.front().begin);
  const double work = published.shape.microbatches *
                      (published.times.forward + published.times.input_gradient + published.times.weight_gradient);
  const double p = published.shape.stages, m = published.shape.microbatches * published.shape.chunks;
  Validated row{
      .name = fmt::format("p {}, m {}, {}", published.shape.stages, published.shape.microbatches, published.schedule),
      .published = published.bubble};
  row.simple = (p - 1) / (m + p - 1);
  row.file = row.library = (cost - work) / cost;
  return row;
}

}  // namespace

double layer_utilisation(const std::string& root) {
  const Json file = Json::parse(read_file(root + "/bench/published/calibrate/megatron-layer.json"));
  const auto h = file.at("d_model").get<double>(), s = file.at("sequence").get<double>();
  const auto tokens = s * file.at("microbatch").get<double>();
  const double flop = 72 * tokens * h * h * (1 + s / (6 * h)) / file.at("tp").get<double>();
  const Json& baseline = file.at("rows")[0];
  const Machine machine = find_machine(file.at("machine").get<std::string>(), root + "/bench/machines");
  const double seconds = (baseline[2].get<double>() + baseline[3].get<double>()) / 1e3;
  return flop / seconds / machine.peak(DType::bf16);
}

std::vector<ValidatedTable> validate(const std::string& root, const std::string& table, const Without& without) {
  const std::string machines = root + "/bench/machines", folder = root + "/bench/published/";
  const double utilisation = layer_utilisation(root);
  const std::vector<PublishedTable> calibrate = read_all_published(folder + "calibrate");
  std::vector<ValidatedTable> all;
  const std::vector<PublishedTable> asked =
      table.empty() ? read_all_published(folder + "predict") : std::vector{read_published(table)};
  for (const PublishedTable& each : asked) {
    ValidatedTable result{.name = each.name,
                          .source = each.source,
                          .unit = each.bubbles.empty() ? "s" : "",
                          .doubt = each.doubt,
                          .overlap_assumed = each.overlap_assumed};
    for (const PublishedRun& run : each.runs) {
      Validated row = validate_run(run, machines, utilisation, without);
      for (const PublishedRun& other : run.others) {
        const double seconds = validate_run(other, machines, utilisation, without).library;
        if (std::abs(seconds - row.library) > std::abs(row.other - row.library) || row.other == 0) row.other = seconds;
      }
      result.rows.push_back(row);
    }
    const auto same = std::find_if(calibrate.begin(), calibrate.end(),
                                   [&](const PublishedTable& other) { return other.name == each.name; });
    const Fit line = same != calibrate.end() ? fit_of(same->sums) : Fit{};
    for (const PublishedSum& sum : each.sums) result.rows.push_back(validate_sum(sum, machines, line, without));
    for (const PublishedBubble& bubble : each.bubbles) result.rows.push_back(validate_bubble(bubble));
    all.push_back(std::move(result));
  }
  return all;
}

namespace {

Deviation deviation_of(const std::vector<double>& off) {
  if (off.empty()) return {};
  Deviation result{
      .median = lockstep::median(off).value, .mean = 0, .worst = *std::max_element(off.begin(), off.end())};
  for (const double value : off) result.mean += value / static_cast<double>(off.size());
  return result;
}

}  // namespace

Deviation deviation(const ValidatedTable& table, double Validated::*predicted) {
  std::vector<double> off;
  for (const Validated& row : table.rows) off.push_back(std::abs(row.*predicted / row.published - 1));
  return deviation_of(off);
}

Deviation memory_deviation(const ValidatedTable& table) {
  std::vector<double> off;
  for (const Validated& row : table.rows)
    if (row.published_memory_bytes > 0) off.push_back(std::abs(row.memory_error()));
  return deviation_of(off);
}

}  // namespace lockstep::plan
