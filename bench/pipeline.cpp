// The bubble of every schedule, formula beside measurement; where stages' time goes; and what each schedule holds in
// memory. Stages take the time they are told to: in the simulator in virtual time, on MPI by wall clock (emulated).
//
//   ./lab bench pipeline                                          p = 2, 4, 8 and m = 1 … 32
//   ./lab bench pipeline --schedule gpipe,1f1b --stages 4 --comm-ms 0,0.1,0.3
//   ./lab bench pipeline --backend mpi --ranks 2 --microbatches 1,4,8 --schedule gpipe --forward-ms 10 --backward-ms 10
//   --weight-ms 10
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "bench/schedule_chart.hpp"
#include "bench/support/bench.hpp"
#include "common/text/units.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"

namespace lockstep::bench {
namespace {

bool simulated() { return std::string_view(backend_name()) == "sim"; }

struct PipelineOptions {
  std::vector<std::string> stages, microbatches{"1", "2", "4", "8", "16", "32"};
  std::vector<std::string> schedules{"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2"};
  std::vector<std::string> comm_ms{"0", "0.1"};
  double forward_ms = 1, backward_ms = 1, weight_ms = 1;
  int chunks = 2;
};

double number(const std::string& option, const std::string& text, double least, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= least) || !(value <= most))
    throw Error(Verdict::usage, fmt::format("{} wants numbers from {:g} to {:g}, not '{}'", option, least, most, text));
  return value;
}
std::vector<int> whole_numbers(const std::string& option, const std::vector<std::string>& texts, int most) {
  std::vector<int> numbers;
  for (const std::string& text : texts) {
    const double value = number(option, text, 1, most);
    if (value != std::floor(value)) throw Error(Verdict::usage, fmt::format("{} counts: not '{}'", option, text));
    numbers.push_back(static_cast<int>(value));
  }
  return numbers;
}

/// One schedule at one shape, its times and what became of it.
struct Case {
  std::string name;
  PipelineShape shape;
  StepTimes times;
};

/// Elements of activations that a microbatch leaves on a stage, all its chunks: 64 MiB where memory is phantom.
std::size_t kept_elements() { return simulated() ? std::size_t{1} << 24 : 4096; }

/// Idle of the ideal by the paper of each schedule: equal stages, no hops. NaN: naive pipelines, and zero bubble where
/// m is too small for a steady state.
double predicted_of_ideal(const Case& c) {
  const double p = c.shape.stages;
  if (c.name == "naive") return p - 1;
  if (!c.name.starts_with("zb")) return week24::bubble_of_ideal(c.shape);
  return std::nan("");
}
/// Of the longest span: (p − 1)(F + B − W) and (p − 1)(F + B − 2W), for m ≥ 2p − 1.
double predicted_of_span(const Case& c) {
  const double turn = c.times.forward + c.times.input_gradient + c.times.weight_gradient, m = c.shape.microbatches;
  double idle = predicted_of_ideal(c) * m * turn;
  if (c.name.starts_with("zb"))
    idle = c.shape.microbatches < 2 * c.shape.stages - 1
               ? std::nan("")
               : (c.shape.stages - 1) * std::max(0.0, c.times.forward + c.times.input_gradient -
                                                          (c.name == "zb-h1" ? 1 : 2) * c.times.weight_gradient);
  return idle / (m * turn + idle);
}

Row row_of(const Case& c) {
  const Schedule schedule = week24::make_schedule(c.name, c.shape);
  const std::size_t kept = kept_elements() / static_cast<std::size_t>(c.shape.chunks);
  const week24::TimedRun run = week24::run_timed(schedule, c.shape, c.times, simulated(), kept);
  const week24::Bubble bubble = week24::measured_bubble(run.stages);
  double busy = 0, ends = 0, waiting = 0, wire = simulated() ? 0 : std::nan("");
  int in_flight = 0;
  std::int64_t activations = 0;
  const Trace named = simulated() ? named_trace(run, c.shape) : Trace{};
  const double stages = c.shape.stages;
  for (std::size_t s = 0; s < run.stages.size(); ++s) {
    const week24::StageUse& use = run.stages[s];
    busy += (use.end - use.begin - use.waiting) / stages;
    ends += (use.begin + bubble.makespan - use.end) / stages;
    waiting += use.waiting / stages;
    if (simulated()) wire += wire_seconds(named, static_cast<int>(s)) / stages;
    in_flight = std::max(in_flight, peak_in_flight(schedule[s]));
    activations =
        std::max(activations, static_cast<std::int64_t>(run.outcome.ledgers[s].memory.peak_of(Category::activation)));
  }
  Row row;
  row.set("schedule", c.name).set("stages", c.shape.stages).set("microbatches", c.shape.microbatches);
  row.set("chunks", c.shape.chunks).set("backend", backend_name()).set("emulated", !simulated());
  row.set("transfer_seconds", c.times.transfer);
  row.set("makespan_seconds", bubble.makespan).set("longest_span_seconds", bubble.longest_span);
  row.set("bubble_of_ideal", bubble.of_ideal).set("bubble_of_total", bubble.of_total);
  row.set("bubble_of_span", bubble.of_span).set("utilisation", 1 - bubble.of_total);
  row.set("predicted_bubble_of_ideal", predicted_of_ideal(c));
  row.set("predicted_bubble_of_total", predicted_of_ideal(c) / (1 + predicted_of_ideal(c)));
  row.set("predicted_bubble_of_span", predicted_of_span(c));
  row.set("busy_seconds", busy).set("idle_seconds", ends).set("waiting_seconds", waiting).set("wire_seconds", wire);
  row.set("peak_in_flight", in_flight).set("activation_bytes_peak", activations);
  row.set("predicted_activation_bytes", static_cast<double>(in_flight) * static_cast<double>(kept) * 4);
  row.set("messages", run.outcome.messages);
  return row;
}

double value(const Row& row, const char* name) {
  for (const Row::Field& field : row.fields())
    if (field.name == name) {
      if (const double* number = std::get_if<double>(&field.value)) return *number;
      if (const std::int64_t* number = std::get_if<std::int64_t>(&field.value)) return static_cast<double>(*number);
    }
  return std::nan("");
}

std::string percent(double share) { return std::isnan(share) ? "–" : fmt::format("{:.2f} %", 100 * share); }

void print(const Case& c, const Row& row) {
  fmt::print(
      "  {:>2} {:>3}  {:<11} {:>9} | {:>8} {:>8} | {:>8} {:>8} | {:>8} {:>8} | {:>8} {:>8} {:>8} {:>8} | {:>4} {:>9}\n",
      c.shape.stages, c.shape.microbatches, c.name, format_seconds(value(row, "makespan_seconds")),
      percent(value(row, "predicted_bubble_of_ideal")), percent(value(row, "bubble_of_ideal")),
      percent(value(row, "predicted_bubble_of_total")), percent(value(row, "bubble_of_total")),
      percent(value(row, "predicted_bubble_of_span")), percent(value(row, "bubble_of_span")),
      format_seconds(value(row, "busy_seconds")), format_seconds(value(row, "idle_seconds")),
      format_seconds(value(row, "waiting_seconds")), simulated() ? format_seconds(value(row, "wire_seconds")) : "–",
      value(row, "peak_in_flight"), format_bytes(value(row, "activation_bytes_peak")));
}

void measure_pipelines(Bench& bench, const PipelineOptions& o) {
  std::vector<int> stages = bench.ranks();
  if (!o.stages.empty()) stages = whole_numbers("--stages", o.stages, 1024);
  if (o.stages.empty() && simulated()) stages = {2, 4, 8};
  if (!o.stages.empty() && !simulated())
    throw Error(Verdict::usage, "--stages is for the simulator: elsewhere stages are --ranks");
  const std::vector<int> microbatches = whole_numbers("--microbatches", o.microbatches, 65536);
  for (const auto& [name, ms] :
       {std::pair{"--forward-ms", o.forward_ms}, {"--backward-ms", o.backward_ms}, {"--weight-ms", o.weight_ms}})
    if (!(ms >= 1e-3) || ms > 1e6) throw Error(Verdict::usage, fmt::format("{} {}: milliseconds from 0.001", name, ms));
  if (o.chunks < 2 || o.chunks > 64) throw Error(Verdict::usage, "--chunks: of interleaved, from 2 to 64");
  for (const std::string& name : o.schedules) week24::make_schedule(name, {2, 2, 1});  // names, before anything runs
  std::vector<double> hops;
  for (const std::string& text : o.comm_ms) hops.push_back(number("--comm-ms", text, 0, 1e6) / 1e3);
  for (const double hop : hops) {
    if (is_judge())
      fmt::print(
          "F, B, W: {:g}, {:g}, {:g} ms; a hop {:g} ms. By formula (equal stages, no hops) and measured; seconds "
          "are means over stages\n  {:>2} {:>3}  {:<11} {:>9} | {:>17} | {:>17} | {:>17} | {:>8} {:>8} {:>8} {:>8} | "
          "{:>14}\n",
          o.forward_ms, o.backward_ms, o.weight_ms, hop * 1e3, "p", "m", "schedule", "makespan", "of the ideal",
          "of the total", "of the span", "busy", "ends", "waiting", "wire", "in flight");
    for (const int p : stages)
      for (const int m : microbatches)
        for (const std::string& name : o.schedules) {
          const bool interleaves = name == "interleaved";
          if (interleaves && (m % p != 0 || p == 1)) continue;
          const Case c{name,
                       {p, m, interleaves ? o.chunks : 1},
                       {o.forward_ms / 1e3, o.backward_ms / 1e3, o.weight_ms / 1e3, hop}};
          const Row row = row_of(c);
          if (is_judge()) print(c, row);
          bench.report(row);
        }
  }
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::PipelineOptions o;
  auto declare = [&](CommandLine& line) {
    line.add("--stages", o.stages, "simulator: p; several with commas; none: 2,4,8");
    line.add("--microbatches", o.microbatches, "m; several with commas");
    line.add("--schedule", o.schedules, "naive, gpipe, 1f1b, interleaved (where p divides m), zb-h1, zb-h2");
    line.add("--comm-ms", o.comm_ms, "a hop from stage to stage; several with commas");
    line.add("--forward-ms", o.forward_ms, "a stage's forward of a microbatch");
    line.add("--backward-ms", o.backward_ms, "likewise, the gradient of its input");
    line.add("--weight-ms", o.weight_ms, "likewise, the gradients of its weights");
    line.add("--chunks", o.chunks, "of interleaved");
  };
  return bench::bench_main("pipeline", "The bubble of pipelines: formula, measurement, memory.", argc, argv, declare,
                           [&](bench::Bench& bench) { bench::measure_pipelines(bench, o); });
}
