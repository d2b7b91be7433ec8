#include "tools/plan/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "common/support/text/columns.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"
#include "tools/plan/strategy_file.hpp"

namespace lockstep::plan {

namespace {

/// A line no wider than the terminal.
void print_wrapped(const std::string& line) {
  fmt::print("{}\n", wrapped_lines(line, terminal_columns(STDOUT_FILENO)));
}

/// ", 12.88 billion of which a token meets": of a mixture.
std::string active(const GptConfig& model) {
  if (model.architecture.experts == 0) return "";
  return fmt::format(", {} of which a token meets", format_parameters(static_cast<double>(model.active_parameters())));
}

/// "12.3", "1010", "1.2e+08": three digits, and no power of ten before a million.
std::string days(double value) {
  return value < 999.5 || value >= 1e6 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

}  // namespace

using week25::Rated;
using week25::StepTime;

Figures figures(const Task& task, const Rated& rated) {
  const double batch = task.global_batch, seconds = rated.time.total();
  const double peak = task.cluster.machine.peak(task.model.storage);
  const double tokens = 20 * static_cast<double>(task.model.active_parameters());
  return {.mfu = batch * task.model.step_flop(task.length) / (task.cluster.gpus * peak * seconds),
          .days = tokens / (batch * static_cast<double>(task.length)) * seconds / 86400};
}

double price_of(const std::string& text) {
  if (text.empty()) return 0;
  return number_in("--price", text.ends_with("/h") ? text.substr(0, text.size() - 2) : text, 1e-6, 1e9);
}

std::string format_cost(double gpu_hours, double price) {
  return fmt::format("{} GPU-hours, {} at {:g} per GPU-hour", days(gpu_hours), days(gpu_hours * price), price);
}

void print_task(const Task& task) {
  const Cluster& cluster = task.cluster;
  print_wrapped(fmt::format("{}: {} parameters{}, {}, sequences of {} tokens, {} of them per step.", task.model_name,
                            format_parameters(static_cast<double>(task.model.parameters())), active(task.model),
                            counted(task.model.layers, "layer"), task.length, task.global_batch));
  fmt::print("{}: {} of {:.4g} GB in {}{}.\n\n", cluster.name, counted(cluster.gpus, "GPU"), task.memory_bytes / 1e9,
             counted(cluster.nodes, "node"), cluster.network.empty() ? "" : ", joined as in " + cluster.network);
  if (task.shard_group > 0) fmt::print("ZeRO-3 holds one copy of the state on every {} ranks.\n\n", task.shard_group);
  if (cluster.machine.by_library)
    fmt::print("Costs are those that NCCL, cuBLAS and {} reach.\n\n", cluster.machine.library->flash.front().name);
  if (task.load_rate > 0)
    fmt::print("Each rank's loader delivers {:.0f} tokens/s, ahead of use; by formula alone.\n\n", task.load_rate);
  if (task.overlap_gather) fmt::print("ZeRO-1 and 2 gather new parameters during the next forward pass.\n\n");
  if (task.model.fp32_gradients) fmt::print("Gradients are held and summed in fp32.\n\n");
  if (task.offload != Offload::none)
    print_wrapped(fmt::format("{} and optimizer states are in the host's memory; by formula alone.\n",
                              task.offload == Offload::parameters ? "Parameters, gradients" : "Gradients"));
  if (task.model.architecture.experts > 0)
    print_wrapped(
        fmt::format("Experts get {}, none is dropped, and nothing hides their all-to-alls; by formula alone.\n",
                    task.imbalance > 1 ? fmt::format("up to {:g} times the average number of rows", task.imbalance)
                                       : "equally many rows"));
  if (task.overlap_scatter)
    print_wrapped("Sequence parallelism scatters input gradients while weight gradients are computed.\n");
}

namespace {

/// "bubble 4.2 %": of the step. Ranks that share sequences or experts wait in the same place as those that share
/// layers.
std::string format_share(const week25::Share& share, const Rated& rated) {
  const week25::Strategy& s = rated.strategy;
  std::string waits;
  for (const auto& [ranks, name] : {std::pair{s.tp, "tensor"}, {s.cp, "context"}, {s.ep, "expert"}})
    if (ranks > 1) waits += fmt::format("{}{}", waits.empty() ? "" : " and ", name);
  const bool shared = (s.cp > 1 || s.ep > 1) && share.name == "tensor parallelism";
  return fmt::format("{} {:.1f}%", shared ? waits + " parallelism" : share.name,
                     100 * share.seconds / rated.time.total());
}

std::string overhead_of(const Rated& rated) { return format_share(week25::largest_overhead(rated.time), rated); }

}  // namespace

void print_plans(const Task& task, const std::vector<Rated>& plans, const std::vector<double>& played) {
  const bool shares = task.cps != std::vector<int>{1}, mixture = task.model.architecture.experts > 0;
  fmt::print("{:>2} {:>4}{} {:>3} {:>3}{} {:>3} {:>4}  {:<15} {:>4} {:>8} {:>5} {:>6} {:>7}\n", "", "dp",
             shares ? "  cp" : "", "tp", "pp", mixture ? "  ep" : "", "b", "m", "schedule", "ZeRO", "step", "MFU",
             "days", "memory");
  int place = 0;
  for (const Rated& rated : plans) {
    const week25::Strategy& s = rated.strategy;
    const auto at = static_cast<std::size_t>(place);
    const double formula = rated.time.total(), step = at < played.size() ? played[at] : formula;
    const Figures f = figures(task, rated);
    const std::string schedule = s.pp == 1      ? "–"
                                 : s.chunks > 1 ? fmt::format("{} × {}", s.schedule, s.chunks)
                                                : s.schedule;
    fmt::print("{:>2} {:>4}{} {:>3} {:>3}{} {:>3} {:>4}  {:<15} {:>4} {:>8} {:>4.1f}% {:>6} {:>4.1f} GB\n", ++place,
               replicas(s), shares ? fmt::format(" {:>3}", s.cp) : "", s.tp, s.pp,
               mixture ? fmt::format(" {:>3}", s.ep) : "", s.microbatch, microbatches(task, s), schedule, s.zero,
               format_seconds(step), 100 * f.mfu * formula / step, days(f.days * step / formula),
               rated.memory.total_bytes() / 1e9);
    print_wrapped(fmt::format("        largest overhead {}{}{}{}", overhead_of(rated),
                              s.recompute || s.selective ? fmt::format(", {} recomputation", recompute_word(s)) : "",
                              s.sequence_parallel ? ", sequence parallel" : "",
                              at < played.size() ? ", by formula " + format_seconds(formula) : ""));
  }
}

namespace {

struct Line {
  const char* name;
  double value;
};

std::vector<Line> lines_of(const StepTime& t, const char* waits, bool input) {
  std::vector<Line> lines{
      {"compute", t.compute},    {"recomputation", t.recomputed},       {waits, t.tensor},      {"bubble", t.bubble},
      {"pipeline hops", t.hops}, {"data-parallel collectives", t.data}, {"optimizer", t.update}};
  if (t.host > 0) lines.push_back({"host", t.host});
  if (input) lines.push_back({"input", t.input});
  return lines;
}

/// The line on input: tokens/s that a rank's loader must deliver so that no step waits, and those that it delivers.
std::string input_line(const Task& task, const Rated& rated) {
  const double tokens = loaded_tokens(task, rated.strategy), needed = tokens / (rated.time.total() - rated.time.input);
  const std::string rates =
      fmt::format("input: each rank needs {:.0f} tokens/s and gets up to {:.0f}", needed, task.load_rate);
  if (rated.time.input == 0) return rates + ", so loading is hidden";
  return rates + fmt::format(", so input bounds the step: it waits {} for its batch", format_seconds(rated.time.input));
}

template <class Format>
void print_shares(std::span<const Line> lines, double all, const Format& format) {
  for (const Line& line : lines) {
    const auto bar = static_cast<std::size_t>(27 * line.value / all + 0.5);
    fmt::print("  {:<28} {:>9} {:>7.1f}%  {}\n", line.name, format(line.value), 100 * line.value / all,
               std::string(bar, '#'));
  }
}

}  // namespace

void print_account(const Task& task, const Rated& rated, std::optional<double> played) {
  const StepTime& t = rated.time;
  const Figures f = figures(task, rated);
  const double step = played.value_or(t.total());
  const std::string formula = played ? fmt::format(" simulated, {} by formula", format_seconds(t.total())) : "";
  fmt::print("{}\n", format_strategy(rated.strategy));
  print_wrapped(fmt::format("step {}{}, MFU {:.1f}%, {} days to 20 tokens per parameter", format_seconds(step), formula,
                            100 * f.mfu * t.total() / step, days(f.days * step / t.total())));
  print_wrapped(fmt::format("{}limited by {}; largest overhead: {}", played ? "by formula " : "",
                            format_share(week25::limit(t), rated), overhead_of(rated)));
  const week25::Strategy& s = rated.strategy;
  const char* waits = s.ep > 1    ? s.tp > 1 || s.cp > 1 ? "all-reduces, all-to-alls" : "experts' all-to-alls"
                      : s.cp == 1 ? "tensor-parallel all-reduces"
                      : s.tp > 1  ? "all-reduces, keys, values"
                                  : "keys and values in flight";
  print_shares(lines_of(t, waits, t.input > 0), t.total(), format_seconds);
  if (task.load_rate > 0) print_wrapped(input_line(task, rated));
  const week25::StageBytes& memory = rated.memory;
  fmt::print("memory of the fullest GPU {:.1f} GB of {:.4g}\n", memory.total_bytes() / 1e9, task.memory_bytes / 1e9);
  const std::array<Line, 4> bytes = {{{"parameters", memory.state.parameter_bytes},
                                      {"gradients", memory.state.gradient_bytes},
                                      {"optimizer", memory.state.optimizer_bytes},
                                      {"activations and buffers", memory.activation_bytes}}};
  print_shares(bytes, memory.total_bytes(), [](double value) { return fmt::format("{:.2f} GB", value / 1e9); });
}

void print_difference(const Rated& mine, const Rated& best) {
  const bool experts = mine.strategy.ep > 1 || best.strategy.ep > 1;
  const char* waits = experts ? "all-reduces, all-to-alls" : "tensor-parallel all-reduces";
  const bool input = mine.time.input > 0 || best.time.input > 0;
  const auto here = lines_of(mine.time, waits, input), there = lines_of(best.time, waits, input);
  for (std::size_t i = 0; i < here.size(); ++i)
    fmt::print("  {:<28} {:>9}   best {:>9}   {}{}\n", here[i].name, format_seconds(here[i].value),
               format_seconds(there[i].value), here[i].value < there[i].value ? "−" : "+",
               format_seconds(std::abs(here[i].value - there[i].value)));
}

void print_offload(const Task& task, const Rated& with, const HostCost& host, const Rated& without,
                   const std::vector<Rated>& best) {
  const int gpus = gpus_of_host(task);
  print_wrapped(fmt::format(
      "with offload: {:.1f} GB on the GPU, {:.1f} on the host (of {}: {:.4g} of {:.4g}); step {}, of "
      "which host {}: {} update, {} waiting, for {:.1f} GB to and from the GPU",
      with.memory.total_bytes() / 1e9, host.bytes / 1e9, counted(gpus, "GPU"), host.bytes * gpus / 1e9,
      task.cluster.machine.host->memory_bytes / 1e9, format_seconds(with.time.total()), format_seconds(host.seconds()),
      format_seconds(host.update), format_seconds(host.waiting), host.moved / 1e9));
  const double needed = without.memory.total_bytes();
  print_wrapped(fmt::format("the same without: {:.1f} GB on the GPU{}; step {}, {:+.1f}% with offload", needed / 1e9,
                            needed > task.memory_bytes ? ", more than it has" : "",
                            format_seconds(without.time.total()),
                            100 * (with.time.total() / without.time.total() - 1)));
  if (best.empty())
    fmt::print("without offload nothing fits\n");
  else
    print_wrapped(fmt::format("the best without offload: {:.1f} GB, step {} ({})",
                              best.front().memory.total_bytes() / 1e9, format_seconds(best.front().time.total()),
                              format_strategy(best.front().strategy)));
  fmt::print("these are the host's bandwidths: DeepSpeed takes longer (docs/use/validation.md)\n");
}

void print_unlimited(const Rated& free, const Rated& best) {
  print_wrapped(fmt::format("without a memory limit: {} by formula, {:.1f}% less, with {:.1f} GB ({})",
                            format_seconds(free.time.total()), 100 * (1 - free.time.total() / best.time.total()),
                            free.memory.total_bytes() / 1e9, format_strategy(free.strategy)));
}

void print_refused(const Search& search) {
  std::vector<std::pair<std::string, Refused>> reasons(search.refused.begin(), search.refused.end());
  std::sort(reasons.begin(), reasons.end(),
            [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  std::size_t all = 0;
  for (const auto& [reason, refused] : reasons) all += refused.count;
  fmt::print("refused: {} of {}\n", all, search.candidates);
  for (const auto& [reason, refused] : reasons) {
    fmt::print("  {:>7}  {}\n", refused.count, reason);
    print_wrapped(fmt::format("           such as {}: {}", refused.example, refused.sentence));
  }
}

void print_rate(const Search& search) {
  fmt::print("{} candidates, {} of them evaluated, in {}: {:.0f} per second.\n", search.candidates, search.rated,
             format_seconds(search.seconds), static_cast<double>(search.candidates) / search.seconds);
}

}  // namespace lockstep::plan
