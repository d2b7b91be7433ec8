#include "tools/train/phantom.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/analysis/write_trace.hpp"
#include "common/support/json/results.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/units.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "tools/train/checkpoint.hpp"
#include "tools/train/log.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::train {

namespace {

using week25::PhantomStep;
using week25::StageSeconds;

void print_stage(const char* what, std::size_t s, const PhantomStep& step) {
  const StageSeconds& t = step.stages[s];
  fmt::print("{:<9} {:>5}  {:>10} {:>10} {:>10} {:>10} {:>10}\n", what, s, format_seconds(t.compute),
             format_seconds(t.tensor), format_seconds(t.idle), format_seconds(t.data), format_seconds(t.update));
}

void print_memory(const PhantomStep& step, const TrainPlan& plan) {
  const auto most = std::max_element(step.memory.begin(), step.memory.end(),
                                     [](const Memory& a, const Memory& b) { return a.peak_total < b.peak_total; });
  std::string parts;
  for (std::size_t k = 0; k < kState.size(); ++k)
    parts += fmt::format("{}{} {}", k ? ", " : "", to_string(kState[k].category),
                         format_bytes(static_cast<double>(most->peak_of(kState[k].category))));
  const double has = plan.run.machine.memory_bytes;
  fmt::print(
      "memory    {} per rank at the peak, on stage {} of 0 to {}: {}{}\n", format_bytes(step.peak_bytes()),
      most - step.memory.begin(), step.memory.size() - 1, parts,
      has > 0 && step.peak_bytes() > has ? fmt::format("; does NOT fit the {} of a GPU", format_bytes(has)) : "");
}

/// (p − 1)/vm is of whole backwards.
std::string bubble_by_formula(const week25::Options3d& o) {
  if (week24::splits_backwards(o.schedule)) return "";
  const double less = o.mesh.pp - 1, parts = o.chunks * o.microbatches;
  return fmt::format("; by formula {:.1f} and {:.1f}%", 100 * less / parts, 100 * less / (parts + less));
}

void print_report(const TrainPlan& plan, const PhantomStep& step) {
  const week25::Options3d& o = plan.step;
  fmt::print("model     {} parameters: {}\n", format_parameters(static_cast<double>(plan.step.model.parameters())),
             describe_model(plan.step.model));
  const int replicas = o.replicas();
  fmt::print("mesh      {}{} × {} tensor-parallel{} × {} = {} of {}; ZeRO-{}{}, recompute {}\n",
             counted(replicas, "replica"), o.cp == 1 ? "" : fmt::format(" × {} context-parallel", o.cp), o.mesh.tp,
             o.sequence_parallel ? " with sequence parallelism" : "", counted(o.mesh.pp, "stage"),
             counted(o.mesh.ranks(), "rank"), plan.run.machine.name, o.zero,
             o.overlap_gather ? " with gathers overlapped with the forward pass" : "", plan.request.recompute);
  fmt::print("step      {} × {}; a replica has {}, schedule {}{}\n", counted(o.batch, "sequence"),
             counted(o.sequence, "token"), counted(o.microbatches, "microbatch"), o.schedule,
             o.chunks == 1 ? "" : fmt::format(" with {} chunks", o.chunks));
  fmt::print("simulated {}, one per stage, in {}: {}tensor-parallel peers and other replicas do the same\n",
             counted(step.simulated_ranks, "rank"), format_seconds(step.wall_seconds),
             o.cp == 1 ? "" : "context-parallel, ");
  // For long sequences attention is most of the FLOP, and published figures count what its mask hides.
  const double causal = step.mfu * static_cast<double>(o.batch) * o.model.step_flop(o.sequence) / step.model_flop;
  fmt::print("time      {} per step (virtual), {:.4g} tokens/s, {:.1f}% of peak FLOP (MFU{})\n",
             format_seconds(step.seconds), step.tokens_per_second, 100 * step.mfu,
             causal > 0.9 * step.mfu ? "" : fmt::format("; {:.1f}% without masked scores", 100 * causal));
  fmt::print("bubble    {:.1f}% of the ideal, {:.1f}% of the whole{}\n", 100 * step.bubble_of_ideal,
             100 * step.bubble_of_total, bubble_by_formula(plan.step));
  fmt::print("exposed   {} of communication: TP and DP collectives{} that the slowest stage waited for\n",
             format_seconds(step.exposed_seconds()), o.cp == 1 ? "" : ", and keys and values,");
  fmt::print("\n          stage     compute   tp waits  idle, hops   dp waits     update\n");
  print_stage("first", 0, step);
  print_stage("slowest", step.slowest(), step);
  print_stage("last", step.stages.size() - 1, step);
  fmt::print("\n");
  print_memory(step, plan);
  for (const week25::LevelBytes& level : step.levels)
    fmt::print("traffic   {}: {} per rank, {} in all\n", level.name, format_bytes(level.per_rank),
               format_bytes(level.all));
}

/// Lists, an element for each stage.
void set_stages(Row& row, const PhantomStep& step) {
  const auto list = [&row](const std::string& name, const auto& of_all, const auto& value) {
    std::vector<double> values;
    for (const auto& one : of_all) values.push_back(static_cast<double>(value(one)));
    row.set("stage_" + name, std::move(values));
  };
  list("compute_seconds", step.stages, [](const StageSeconds& s) { return s.compute; });
  list("tensor_seconds", step.stages, [](const StageSeconds& s) { return s.tensor; });
  list("idle_seconds", step.stages, [](const StageSeconds& s) { return s.idle; });
  list("data_seconds", step.stages, [](const StageSeconds& s) { return s.data; });
  list("update_seconds", step.stages, [](const StageSeconds& s) { return s.update; });
  for (const State& state : kState)
    list(fmt::format("{}_bytes_peak", state.field), step.memory,
         [&](const Memory& m) { return m.peak_of(state.category); });
  list("memory_bytes_peak", step.memory, [](const Memory& m) { return m.peak_total; });
}

Row row_of(const TrainPlan& plan, const PhantomStep& step) {
  const week25::Options3d& o = plan.step;
  Row row;
  row.set("backend", "sim").set("machine", plan.run.machine.name).set("phantom", true);
  row.set("ranks", o.mesh.ranks()).set("simulated_ranks", step.simulated_ranks);
  set_asked(row, plan.request);
  row.set("steps", 1).set("parameters", o.model.parameters()).set("sequence_tokens", o.sequence);
  row.set("replicas", o.replicas()).set("accumulate", o.microbatches).set("chunks", o.chunks);
  row.set("recompute", plan.request.recompute);
  row.set("seconds", step.seconds).set("tokens_per_second", step.tokens_per_second).set("mfu", step.mfu);
  row.set("model_flop", step.model_flop).set("bubble_of_ideal", step.bubble_of_ideal);
  row.set("bubble_of_total", step.bubble_of_total).set("exposed_seconds", step.exposed_seconds());
  const StageSeconds& t = step.stages[step.slowest()];
  row.set("compute_seconds", t.compute).set("tensor_seconds", t.tensor).set("idle_seconds", t.idle);
  row.set("data_seconds", t.data).set("update_seconds", t.update).set("memory_bytes_peak", step.peak_bytes());
  for (const State& state : kState) {
    std::uint64_t most = 0;
    for (const Memory& stage : step.memory) most = std::max(most, stage.peak_of(state.category));
    row.set(fmt::format("{}_bytes_peak", state.field), most);
  }
  set_stages(row, step);
  double inside = 0, across = 0;
  for (std::size_t l = 0; l < step.levels.size(); ++l)
    (l + 1 == step.levels.size() ? across : inside) += step.levels[l].all;
  row.set("bytes_sent_inside_nodes", inside).set("bytes_sent_across_nodes", across);
  row.set("wall_seconds", step.wall_seconds);
  return row;
}

}  // namespace

int report_phantom(const TrainPlan& plan) {
  const PhantomStep step = week25::phantom_step(plan.step, plan.run.machine, !plan.request.trace.empty());
  print_report(plan, step);
  if (!plan.request.trace.empty()) {
    Trace trace = step.trace;
    trace.backend = backend_name();
    trace.machine = plan.run.machine.name;
    write_trace(trace, plan.request.trace, title_of(plan) + ", one rank per stage");
  }
  if (!plan.request.json.empty())
    write_results(plan.request.json, context_of(plan), std::vector<Row>{row_of(plan, step)});
  return 0;
}

}  // namespace lockstep::train
