// The bubble of every schedule, by formula and measured; how stages spend their time; and the memory that each schedule
// needs. Stages take prescribed times: virtual time in the simulator, wall-clock time on MPI (emulated).
//
//   ./lab bench pipeline                                          p = 2, 4, 8 and m = 1 … 32
//   ./lab bench pipeline --schedule gpipe,1f1b --stages 4 --comm-ms 0,0.1,0.3
//   ./lab bench pipeline --stages 4 --microbatches 8 --last-stage 1,1.5,2    unequal stages, the same work in all
//   ./lab bench pipeline --backend mpi --ranks 2 --microbatches 1,4,8 --schedule gpipe --forward-ms 10
//       --backward-ms 10 --weight-ms 10
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "bench/support/bench.hpp"
#include "common/analysis/write_trace.hpp"
#include "common/support/json/row_fields.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "tools/calculators/schedule_chart.hpp"

namespace lockstep::bench {
namespace {

struct PipelineOptions {
  std::vector<std::string> stages, microbatches{"1", "2", "4", "8", "16", "32"};
  std::vector<std::string> schedules{"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipev"};
  std::vector<std::string> comm_ms{"0", "0.1"};
  std::vector<std::string> last_stage{"1"};
  double forward_ms = 1, backward_ms = 1, weight_ms = 1;
  int chunks = 2;
};

/// One schedule for one shape, and the times of all stages except the last, which takes `last_stage` times as long.
struct Case {
  std::string name;
  PipelineShape shape;
  StepTimes times;
  double last_stage = 1;

  double turn() const { return times.forward + times.input_gradient + times.weight_gradient; }
  bool halves() const { return week24::splits_backwards(name); }
};

/// Elements of activations that a microbatch keeps on a stage, in all its chunks: 64 MiB in phantom memory.
std::size_t kept_elements() { return time_is_virtual() ? std::size_t{1} << 24 : 4096; }

/// Idle fraction of the ideal time, which is the work of the slowest stage; hops not counted. The first microbatch
/// takes Σ over all stages. After it GPipe and 1F1B complete one per time of the slowest stage, naive pipelines one per
/// Σ. NaN: no formula.
double predicted_of_ideal(const Case& c) {
  const double slowest = std::max(1.0, c.last_stage), others = (c.shape.stages - 1 + c.last_stage) / slowest - 1;
  if (c.name == "naive") return others;
  if (c.last_stage == 1 && !c.halves()) return week24::bubble_of_ideal(c.shape);
  if (c.last_stage >= 1 && (c.name == "gpipe" || c.name == "1f1b")) return others / c.shape.microbatches;
  return std::nan("");
}
/// Idle fraction of the longest span. That is the first stage's, which contains the whole bubble. With zero bubble it
/// is (p − 1)(F + B − W) and (p − 1)(F + B − 2W), for m ≥ 2p − 1; in a V, if F = B = W, zero, and for DualPipeV and m ≥
/// 2p half a forward per stage after the first.
double predicted_of_span(const Case& c) {
  const double work = c.shape.microbatches * c.turn() * std::max(1.0, c.last_stage);
  double idle = predicted_of_ideal(c) * work;
  const StepTimes& t = c.times;
  const bool vee = c.shape.placement == Placement::vee,
             equal = t.forward == t.input_gradient && t.forward == t.weight_gradient;
  const bool pairs = c.name == "dualpipev";
  if (c.halves() && c.last_stage == 1 && c.shape.microbatches >= 2 * c.shape.stages - (pairs ? 0 : 1) &&
      (!vee || equal))
    idle = (c.shape.stages - 1) *
           (pairs ? t.forward / 2
                  : std::max(0.0, t.forward + t.input_gradient - (c.name == "zb-h1" ? 1 : 2) * t.weight_gradient));
  return idle / (work + idle);
}

/// Time and memory of each stage.
struct StageAccount {
  std::vector<double> busy, ends, waiting, wire, activations, in_flight;
};
double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value / static_cast<double>(values.size());
  return sum;
}
double most(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

StageAccount account_of(const Schedule& schedule, const week24::TimedRun& run, double makespan) {
  StageAccount account;
  account.wire = time_is_virtual() ? wire_seconds(run) : std::vector<double>(run.stages.size(), std::nan(""));
  for (std::size_t s = 0; s < run.stages.size(); ++s) {
    const week24::StageUse& use = run.stages[s];
    account.busy.push_back(use.end - use.begin - use.waiting);
    account.ends.push_back(use.begin + makespan - use.end);
    account.waiting.push_back(use.waiting);
    account.activations.push_back(static_cast<double>(run.outcome.ledgers[s].memory.peak_of(Category::activation)));
    account.in_flight.push_back(peak_in_flight(schedule[s]));
  }
  return account;
}

Row row_of(const Case& c) {
  const Schedule schedule = week24::make_schedule(c.name, c.shape);
  const std::size_t kept = kept_elements() / static_cast<std::size_t>(c.shape.chunks);
  const week24::TimedRun run = week24::run_timed(
      schedule, c.shape, c.times, {.trace = time_is_virtual(), .kept = kept, .last_stage = c.last_stage});
  const week24::Bubble bubble = week24::measured_bubble(run.stages);
  const StageAccount stages = account_of(schedule, run, bubble.makespan);
  Row row;
  row.set("schedule", c.name).set("stages", c.shape.stages).set("microbatches", c.shape.microbatches);
  row.set("chunks", c.shape.chunks).set("backend", backend_name()).set("emulated", !time_is_virtual());
  row.set("transfer_seconds", c.times.transfer).set("last_stage", c.last_stage);
  row.set("makespan_seconds", bubble.makespan).set("longest_span_seconds", bubble.longest_span);
  row.set("bubble_of_ideal", bubble.of_ideal).set("bubble_of_total", bubble.of_total);
  row.set("bubble_of_span", bubble.of_span).set("utilisation", mean(stages.busy) / bubble.makespan);
  const double of_ideal = predicted_of_ideal(c);
  row.set("predicted_bubble_of_ideal", of_ideal).set("predicted_bubble_of_total", of_ideal / (1 + of_ideal));
  row.set("predicted_bubble_of_span", predicted_of_span(c));
  row.set("busy_seconds", mean(stages.busy)).set("idle_seconds", mean(stages.ends));
  row.set("waiting_seconds", mean(stages.waiting)).set("wire_seconds", mean(stages.wire));
  row.set("peak_in_flight", static_cast<int>(most(stages.in_flight)));
  row.set("activation_bytes_peak", static_cast<std::int64_t>(most(stages.activations)));
  row.set("predicted_activation_bytes", most(stages.in_flight) * static_cast<double>(kept) * 4);
  row.set("messages", run.outcome.messages);
  row.set("stage_busy_seconds", stages.busy).set("stage_idle_seconds", stages.ends);
  row.set("stage_waiting_seconds", stages.waiting).set("stage_wire_seconds", stages.wire);
  row.set("stage_activation_bytes_peak", stages.activations).set("stage_peak_in_flight", stages.in_flight);
  return row;
}

std::string percent(double share) {
  const double hundredths = std::round(1e4 * share) + 0.0;  // + 0.0: never "−0.00"
  return std::isnan(share) ? "–" : fmt::format("{:.2f}%", hundredths / 100);
}

void print_head(const PipelineOptions& o, double hop, double last_stage) {
  fmt::print(
      "F, B, W: {:g}, {:g}, {:g} ms; a hop {:g} ms{}. By formula (no hops) and measured; seconds are means over "
      "stages\n  {:>2} {:>3}  {:<11} {:>9} | {:>17} | {:>17} | {:>17} | {:>8} {:>8} {:>8} {:>8} | {:>14}\n",
      o.forward_ms, o.backward_ms, o.weight_ms, hop * 1e3,
      last_stage == 1 ? "" : fmt::format(" on average, the last stage {:g} times the others' work", last_stage), "p",
      "m", "schedule", "makespan", "of the ideal", "of the total", "of the span", "busy", "ends", "waiting", "wire",
      "in flight");
}

void print(const Case& c, const Row& row) {
  fmt::print(
      "  {:>2} {:>3}  {:<11} {:>9} | {:>8} {:>8} | {:>8} {:>8} | {:>8} {:>8} | {:>8} {:>8} {:>8} {:>8} | {:>4} {:>9}\n",
      c.shape.stages, c.shape.microbatches, c.name, format_seconds(number(row, "makespan_seconds")),
      percent(number(row, "predicted_bubble_of_ideal")), percent(number(row, "bubble_of_ideal")),
      percent(number(row, "predicted_bubble_of_total")), percent(number(row, "bubble_of_total")),
      percent(number(row, "predicted_bubble_of_span")), percent(number(row, "bubble_of_span")),
      format_seconds(number(row, "busy_seconds")), format_seconds(number(row, "idle_seconds")),
      format_seconds(number(row, "waiting_seconds")),
      time_is_virtual() ? format_seconds(number(row, "wire_seconds")) : "–", number(row, "peak_in_flight"),
      format_bytes(number(row, "activation_bytes_peak")));
}

std::vector<int> stages_of(const Bench& bench, const PipelineOptions& o) {
  if (!o.stages.empty() && !time_is_virtual())
    throw Error(Verdict::usage, "--stages is for the simulator: elsewhere stages are --ranks");
  if (!o.stages.empty()) return counts_in("--stages", o.stages, 1024);
  return time_is_virtual() ? std::vector{2, 4, 8} : bench.ranks();
}

/// Returns the schedule's shape on p stages; nothing if it is impossible. Interleaving requires p to divide m, and both
/// interleaving and a V require another stage to send to.
std::optional<PipelineShape> shape_on(const PipelineOptions& o, const std::string& name, int p, int m) {
  const bool interleaves = name == "interleaved";
  if ((interleaves && m % p != 0) || (p == 1 && (interleaves || week24::in_a_vee(name)))) return std::nullopt;
  return week24::shape_of(name, p, m, interleaves ? o.chunks : 0);
}

void measure_shapes(Bench& bench, const PipelineOptions& o, double hop, double last_stage) {
  if (is_judge()) print_head(o, hop, last_stage);
  for (const int p : stages_of(bench, o))
    for (const int m : counts_in("--microbatches", o.microbatches, 65536))
      for (const std::string& name : o.schedules) {
        const std::optional<PipelineShape> shape = shape_on(o, name, p, m);
        if (!shape) continue;
        const double share = p / (p - 1 + last_stage) / 1e3;  // keeps the total work of all stages constant
        const Case c{name, *shape, {o.forward_ms * share, o.backward_ms * share, o.weight_ms * share, hop}, last_stage};
        const Row row = row_of(c);
        if (is_judge()) print(c, row);
        bench.report(row);
      }
}

/// Draws each schedule once: of the first requested shape, or of 4 stages and 8 microbatches.
void draw_schedules(Bench& bench, const PipelineOptions& o, double hop, double last_stage) {
  if (bench.timeline().empty()) return;
  if (!time_is_virtual()) throw Error(Verdict::usage, "--timeline is for the simulator: leave out --backend");
  const bool usual = o.microbatches == PipelineOptions{}.microbatches;
  const int p = o.stages.empty() ? 4 : stages_of(bench, o).front();
  const int m = usual ? 8 : counts_in("--microbatches", o.microbatches, 65536).front();
  for (const std::string& name : o.schedules) {
    const std::optional<PipelineShape> shape = shape_on(o, name, p, m);
    if (!shape) continue;
    const StepTimes times{o.forward_ms / 1e3, o.backward_ms / 1e3, o.weight_ms / 1e3, hop};
    const week24::TimedRun run = week24::run_timed(week24::make_schedule(name, *shape), *shape, times,
                                                   {.trace = true, .last_stage = last_stage});
    write_trace(named_trace(run, *shape), fmt::format("{}_{}.trace", bench.timeline(), name), name);
  }
}

void measure_pipelines(Bench& bench, const PipelineOptions& o) {
  for (const std::string& name : o.schedules)
    week24::make_schedule(name, week24::shape_of(name, 2, 2));  // checks the names before anything runs
  std::vector<double> hops, factors;
  for (const std::string& text : o.comm_ms) hops.push_back(number_in("--comm-ms", text, 0, 1e6) / 1e3);
  for (const std::string& text : o.last_stage) factors.push_back(number_in("--last-stage", text, 0.01, 100));
  draw_schedules(bench, o, hops.front(), factors.front());
  for (const double hop : hops)
    for (const double factor : factors) measure_shapes(bench, o, hop, factor);
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::PipelineOptions o;
  constexpr Real kMilliseconds{1e-3, 1e6};
  auto declare = [&](CommandLine& line) {
    line.add("--stages", o.stages, "simulator: stages (p); separate several with commas; default: 2,4,8");
    line.add("--microbatches", o.microbatches, "microbatches per step (m); separate several with commas");
    line.add("--schedule", o.schedules,
             "naive, gpipe, 1f1b, interleaved (where p divides m), zb-h1, zb-h2, zb-v, dualpipev");
    line.add("--comm-ms", o.comm_ms, "a hop from stage to stage; separate several with commas");
    line.add("--forward-ms", o.forward_ms, "a stage's forward of a microbatch", kMilliseconds);
    line.add("--backward-ms", o.backward_ms, "likewise, the gradient of its input", kMilliseconds);
    line.add("--weight-ms", o.weight_ms, "likewise, the gradients of its weights", kMilliseconds);
    line.add("--chunks", o.chunks, "chunks per stage of interleaved", Whole{2, 64});
    line.add("--last-stage", o.last_stage,
             "the last stage's work relative to each other stage's; separate several with commas");
  };
  return bench::bench_main("pipeline", "Pipeline bubbles: formula, measurement, memory.", argc, argv, declare,
                           [&](bench::Bench& bench) { bench::measure_pipelines(bench, o); });
}
