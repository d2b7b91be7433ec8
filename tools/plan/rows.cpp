#include "tools/plan/rows.hpp"

#include <cmath>

#include "common/support/json/results.hpp"
#include "tools/plan/operations.hpp"
#include "tools/plan/report.hpp"

namespace lockstep::plan {
namespace {

using week25::Rated;
using week25::Strategy;

Row row_of(const Task& task, const Rated& rated, const char* kind, int place) {
  const Figures f = figures(task, rated);
  const Strategy& s = rated.strategy;
  Row row;
  row.set("kind", kind).set("place", place).set("model", task.model_name).set("cluster", task.cluster.name);
  row.set("gpus", task.cluster.gpus).set("global_batch", task.global_batch).set("sequence_tokens", task.length);
  row.set("shard_group", holders(task, s) < s.dp ? task.shard_group : 0);
  row.set("dp", replicas(s)).set("cp", s.cp).set("tp", s.tp).set("pp", s.pp).set("microbatch", s.microbatch);
  if (task.model.architecture.experts > 0) row.set("ep", s.ep).set("imbalance", task.imbalance);
  row.set("microbatches", microbatches(task, s))
      .set("schedule", s.schedule)
      .set("chunks", s.chunks)
      .set("zero", s.zero);
  row.set("recompute", recompute_word(s)).set("sequence_parallel", s.sequence_parallel);
  row.set("overlap_gather", task.overlap_gather).set("overlap_scatter", task.overlap_scatter);
  row.set("fp32_gradients", task.model.fp32_gradients);
  if (task.offload != Offload::none) {
    const HostCost host = Predictor(task).on_host(s);
    row.set("offload", word_of(task.offload)).set("host_seconds", rated.time.host);
    row.set("host_bytes", host.bytes).set("host_moved_bytes", host.moved);
  }
  if (task.load_rate > 0) row.set("load_rate", task.load_rate).set("input_seconds", rated.time.input);
  row.set("step_seconds", rated.time.total()).set("mfu", f.mfu).set("days", f.days);
  row.set("compute_seconds", rated.time.compute).set("recompute_seconds", rated.time.recomputed);
  row.set("tensor_seconds", rated.time.tensor).set("bubble_seconds", rated.time.bubble);
  row.set("hop_seconds", rated.time.hops).set("data_seconds", rated.time.data).set("update_seconds", rated.time.update);
  row.set("memory_bytes", rated.memory.total_bytes()).set("parameter_bytes", rated.memory.state.parameter_bytes);
  row.set("gradient_bytes", rated.memory.state.gradient_bytes);
  row.set("optimizer_bytes", rated.memory.state.optimizer_bytes);
  row.set("activation_bytes", rated.memory.activation_bytes);
  row.set("limited_by", week25::limit(rated.time).name);
  row.set("largest_overhead", week25::largest_overhead(rated.time).name);
  return row;
}

}  // namespace

double gpu_hours(const Task& task, const Rated& rated, double seconds) {
  return 24 * figures(task, rated).days * seconds / rated.time.total() * task.cluster.gpus;
}

void write_plans(const PlanOptions& o, const Task& task, const Search& found,
                 const std::vector<std::optional<week25::PhantomStep>>& simulated,
                 const std::optional<Refined>& explained, double price) {
  if (o.json.empty() && o.csv.empty()) return;
  std::vector<Row> rows;
  for (const Rated& rated : found.best) rows.push_back(row_of(task, rated, "plan", static_cast<int>(rows.size()) + 1));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool played = i < simulated.size() && simulated[i];
    const double hours = gpu_hours(task, found.best[i], played ? simulated[i]->seconds : found.best[i].time.total());
    rows[i].set("gpu_hours", hours).set("cost", price > 0 ? hours * price : NAN);
  }
  for (std::size_t i = 0; i < simulated.size(); ++i)
    if (simulated[i])
      rows[i].set("simulated_seconds", simulated[i]->seconds).set("simulated_memory_bytes", simulated[i]->peak_bytes());
  if (explained) rows.push_back(row_of(task, explained->rated, "explained", 1));
  if (explained && explained->played) rows.back().set("simulated_seconds", explained->played->seconds);
  std::vector<OperationTotal> operations;
  if (task.model.architecture.experts == 0) operations = operations_of_microbatch(task, found.best.front().strategy);
  for (const OperationTotal& total : operations) {
    Row row;
    row.set("kind", "operation").set("operation", total.name).set("calls", total.calls).set("seconds", total.seconds);
    rows.push_back(row.set("flop", total.flop).set("moved_bytes", total.bytes));
  }
  for (const auto& [reason, refused] : found.refused) {
    Row row;
    row.set("kind", "refused").set("reason", reason).set("count", refused.count);
    rows.push_back(row.set("example", refused.example).set("sentence", refused.sentence));
  }
  Context context = Context::here();
  context.more.set("command", "plan")
      .set("command_line", o.command_line)
      .set("prices", o.prices)
      .set("precision", o.precision)
      .set("price_per_gpu_hour", price > 0 ? price : NAN)
      .set("peak_flop_per_second", task.cluster.machine.peak(task.model.storage))
      .set("memory_bytes_per_second", task.cluster.machine.memory_bytes_per_second)
      .set("candidates", found.candidates)
      .set("candidates_per_second", static_cast<double>(found.candidates) / found.seconds);
  if (!o.json.empty()) write_results(o.json, context, rows);
  if (!o.csv.empty()) write_csv(o.csv, rows);
}

}  // namespace lockstep::plan
