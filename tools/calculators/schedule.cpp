// ./lab pipeline: a pipeline's schedule checked, run on stages that take the given times, drawn and counted.
//
//   ./lab pipeline --stages 4 --microbatches 8 --schedule 1f1b
//   ./lab pipeline --stages 4 --microbatches 8 --schedule interleaved --chunks 2 --comm-ms 0.1
//   ./lab pipeline --stages 8 --microbatches 24 --schedule 1f1b,zb-h1,zb-h2 --forward-ms 18.522 --backward-ms 18.086
//   --weight-ms 9.337 --comm-ms 0.601
//   ./lab pipeline --schedule-file mine.txt --plot mine.svg      a line of words a stage: F0 F1 B0 B1
//   ./lab pipeline --stage-work 1,1,1,1.4 --in-flight 4 --schedule-file mine.txt,hers.txt    unequal stages, a limit of
//   memory, a ranking; --contest 1 says the same of exercise 24.7's first pipeline
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "common/analysis/write_trace.hpp"
#include "common/runtime/run.hpp"
#include "common/support/json/repeatable.hpp"
#include "common/support/json/results.hpp"
#include "common/support/text/command_line.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/run_program.hpp"
#include "common/support/text/units.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "tools/calculators/contest.hpp"
#include "tools/calculators/plot.hpp"
#include "tools/calculators/schedule_chart.hpp"

namespace lockstep::bench {
namespace {

constexpr int kMostColumns = 10'000;  // of a chart

struct PipelineOptions {
  std::string stages;  // "": 4, or the lines of the file
  int microbatches = 8, chunks = 0;
  std::vector<std::string> schedules{"1f1b"};
  std::vector<std::string> files;
  ContestOptions contest;
  double forward_ms = 1, backward_ms = 1, weight_ms = 1, comm_ms = 0;
  int columns = 0;
  bool no_chart = false;
  std::string json, csv, plot, trace;
  std::string command_line;  // that repeats it
};

struct Pipe {
  std::string name;
  PipelineShape shape;
  Schedule schedule;
  std::string refused = {};  // why it does not count; else ""
  bool unequal = false;      // its stages
};

/// Reads a schedule's file. One of several that cannot be read is refused, and the others continue.
Pipe pipe_of(const PipelineOptions& o, const std::string& file) {
  try {
    ShapedSchedule read = parse_schedule(read_file(file), file);
    const PipelineShape shape = read.shape;
    if (!o.stages.empty() && count_in("--stages", o.stages, 1024) != shape.stages)
      throw Error(Verdict::usage,
                  fmt::format("{} has lines for {} stages, but --stages is {}", file, shape.stages, o.stages));
    return {file, shape, std::move(read.schedule)};
  } catch (const Error& error) {
    if (o.files.size() == 1 || error.verdict() != Verdict::usage) throw;
    return {file, {}, {}, error.what()};
  }
}

std::vector<Pipe> pipes_of(const PipelineOptions& o) {
  std::vector<Pipe> pipes;
  for (const std::string& file : o.files) pipes.push_back(pipe_of(o, file));
  if (!o.files.empty()) return pipes;
  const auto size = [](const char* option, int value, int most) {
    if (value < 1 || value > most)
      throw Error(Verdict::usage, fmt::format("{} {}: whole numbers from 1 to {}", option, value, most));
    return value;
  };
  const PipelineShape asked = asked_shape(o.contest);
  const int usual = asked.stages == 0 ? 4 : asked.stages;
  const int stages = o.stages.empty() ? usual : count_in("--stages", o.stages, 1024),
            microbatches = asked.microbatches > 0 ? asked.microbatches : size("--microbatches", o.microbatches, 65536);
  for (const std::string& name : o.schedules) {
    const PipelineShape shape =
        week24::shape_of(name, stages, microbatches, o.chunks == 0 ? 0 : size("--chunks", o.chunks, 64));
    if (shape.stages == 1 && shape.chunks > 1)
      throw Error(Verdict::usage, "--chunks: interleaving needs at least two stages");
    pipes.push_back({name, shape, week24::make_schedule(name, shape)});
  }
  return pipes;
}

StepTimes times_of(const PipelineOptions& o) {
  for (const auto& [name, value] : {std::pair{"--forward-ms", o.forward_ms},
                                    {"--backward-ms", o.backward_ms},
                                    {"--weight-ms", o.weight_ms},
                                    {"--comm-ms", o.comm_ms}})
    if (!(value >= 0) || value > 1e6)
      throw Error(Verdict::usage, fmt::format("{} {}: milliseconds from 0 to 1000000", name, value));
  if (o.forward_ms + o.backward_ms + o.weight_ms < 1e-6)
    throw Error(Verdict::usage, "--forward-ms, --backward-ms and --weight-ms are all 0: a step would take no time");
  return {o.forward_ms / 1e3, o.backward_ms / 1e3, o.weight_ms / 1e3, o.comm_ms / 1e3};
}

struct Numbers {
  week24::Bubble bubble;
  int in_flight = 0;
  double waiting = 0;  // of the stage that waits most
  double wire = -1;    // of the stage whose messages are under way longest; −1: not traced
};

Numbers numbers_of(const Pipe& pipe, const week24::TimedRun& run) {
  Numbers numbers{.bubble = week24::measured_bubble(run.stages)};
  for (const StageSchedule& stage : pipe.schedule)
    numbers.in_flight = std::max(numbers.in_flight, peak_in_flight(stage));
  for (const week24::StageUse& use : run.stages) {
    numbers.waiting = std::max(numbers.waiting, use.waiting);
  }
  return numbers;
}

/// True if there is a formula for it: there are those of equal stages without hops, for schedules with whole backwards.
bool has_formula(const Pipe& pipe) {
  return !pipe.unequal && (pipe.name == "gpipe" || pipe.name == "1f1b" || pipe.name == "interleaved");
}

Row row_of(const Pipe& pipe, const StepTimes& times, const week24::TimedRun& run, const Numbers& n) {
  Row row;
  row.set("schedule", pipe.name).set("stages", pipe.shape.stages).set("microbatches", pipe.shape.microbatches);
  row.set("chunks", pipe.shape.chunks).set("backend", backend_name());
  row.set("makespan_seconds", n.bubble.makespan).set("longest_span_seconds", n.bubble.longest_span);
  row.set("bubble_of_ideal", n.bubble.of_ideal).set("bubble_of_total", n.bubble.of_total);
  row.set("bubble_of_span", n.bubble.of_span).set("peak_in_flight", n.in_flight);
  const double none = std::nan("");
  row.set("predicted_bubble_of_ideal", has_formula(pipe) ? week24::bubble_of_ideal(pipe.shape) : none);
  row.set("predicted_bubble_of_total", has_formula(pipe) ? week24::bubble_of_total(pipe.shape) : none);
  row.set("forward_seconds", times.forward).set("input_gradient_seconds", times.input_gradient);
  row.set("weight_gradient_seconds", times.weight_gradient).set("transfer_seconds", times.transfer);
  row.set("messages", run.outcome.messages).set("wall_seconds", run.outcome.wall_seconds);
  return row;
}

void print(const Pipe& pipe, const week24::TimedRun& run, const Numbers& n) {
  const PipelineShape& shape = pipe.shape;
  const auto line = [](const std::string& name, double value, const std::string& formula) {
    fmt::print("  {:<22} {:>9.2f}%{}\n", name, 100 * value, formula);
  };
  const auto beside = [&](const char* text, double value) {
    return has_formula(pipe) ? fmt::format("   {} = {:.2f}% without hops", text, 100 * value) : std::string();
  };
  fmt::print("  {:<22} {:>10}\n  {:<22} {:>10}   of a stage, from its own first step to its own last\n", "makespan",
             format_seconds(n.bubble.makespan), "longest span", format_seconds(n.bubble.longest_span));
  line("bubble of the ideal", n.bubble.of_ideal, beside("(p − 1)/(v·m)", week24::bubble_of_ideal(shape)));
  line("bubble of the total", n.bubble.of_total, beside("(p − 1)/(v·m + p − 1)", week24::bubble_of_total(shape)));
  line("bubble of the span", n.bubble.of_span, "");
  fmt::print("  {:<22} {:>10}   {}\n", "in flight, at most", n.in_flight,
             shape.chunks > 1 ? "microbatches × chunks on a stage" : "microbatches on a stage");
  fmt::print("  {:<22} {:>10}   between its steps, the stage that waits most\n", "waiting", format_seconds(n.waiting));
  if (n.wire >= 0)
    fmt::print("  {:<22} {:>10}   overlapped or not, the stage that sends longest\n", "on the wire",
               format_seconds(n.wire));
  fmt::print("  {:<22} {:>10}\n", "messages", run.outcome.messages);
}

int chart_columns(const PipelineOptions& o) {
  if (o.columns > 0) return o.columns;
  const char* terminal = std::getenv("COLUMNS");
  const int columns = terminal ? std::atoi(terminal) : 0;
  return columns >= 60 && columns <= kMostColumns ? columns : 120;
}

void print_chart(const Trace& trace, int columns) {
  std::ostringstream chart;
  write_gantt_text(trace, chart, columns);
  fmt::print("{}", chart.str());
}

void write_files(const PipelineOptions& o, const Trace& trace, const std::string& title) {
  const auto write = [&](const std::string& path) { write_trace(trace, path, title); };
  if (!o.trace.empty()) write(o.trace);
  if (!o.plot.empty()) plot("timeline_figures.py", o.plot, write);
}

/// Runs one schedule, prints its charts, and adds its row.
Entry show(const PipelineOptions& o, const Contest& contest, StepTimes times, const Pipe& pipe,
           std::vector<Row>& rows) {
  const PipelineShape& shape = pipe.shape;
  const bool chart = !o.no_chart && shape.stages <= 32, trace = chart || !o.plot.empty() || !o.trace.empty();
  week24::TimedOptions how{.trace = trace};
  if (!contest.times.empty()) {
    how.by_stage = chunk_times(contest, times, shape);
    times = contest.times.front();
  }
  const week24::TimedRun run = week24::run_timed(pipe.schedule, shape, times, how);
  Numbers numbers = numbers_of(pipe, run);
  const double least = least_seconds(contest, times, shape);
  rows.push_back(row_of(pipe, times, run, numbers));
  rows.back().set("lower_bound_seconds", least);
  const std::string title =
      fmt::format("{}: {}, {}{}", pipe.name, counted(shape.stages, "stage"), counted(shape.microbatches, "microbatch"),
                  shape.chunks > 1 ? fmt::format(", {} chunks", shape.chunks) : "");
  fmt::print("{}\n", title);
  if (trace) {
    const Trace named = named_trace(run, shape);
    numbers.wire = std::ranges::max(wire_seconds(run));
    if (chart) print_chart(named, chart_columns(o));
    write_files(o, named, title);
  }
  print(pipe, run, numbers);
  return {pipe.name, numbers.bubble.makespan, least, numbers.in_flight, ""};
}

/// The contest that the options ask for, of the stages that the schedules have.
Contest contest_for(const PipelineOptions& o, const std::vector<Pipe>& pipes, const StepTimes& times) {
  int stages = asked_shape(o.contest).stages;
  for (const Pipe& pipe : pipes)
    if (stages == 0 && pipe.refused.empty()) stages = pipe.shape.stages;
  return contest_of(o.contest, stages, times);
}

/// Refuses schedules that cannot be run: a single one is an error, of several the others continue.
void judge(std::vector<Pipe>& pipes, const Contest& contest) {
  for (Pipe& pipe : pipes) {
    pipe.unequal = !contest.times.empty();
    if (pipe.refused.empty()) pipe.refused = refusal(contest, pipe.schedule, pipe.shape);
    if (pipes.size() == 1 && !pipe.refused.empty())
      throw Error(Verdict::usage, fmt::format("{}: {}", pipe.name, pipe.refused));
  }
}

/// In a contest 1F1B takes part, in the shape of the first schedule that counts.
void add_baseline(std::vector<Pipe>& pipes, const Contest& contest) {
  const auto counts = std::find_if(pipes.begin(), pipes.end(), [](const Pipe& pipe) { return pipe.refused.empty(); });
  if (!contest.asked() || (counts == pipes.end() && contest.name.empty())) return;
  PipelineShape shape = counts == pipes.end() ? contest.shape : counts->shape;
  shape = {shape.stages, shape.microbatches};
  Pipe pipe{"1F1B within the limits (baseline)", shape, baseline(contest, shape)};
  pipe.refused = check_schedule(pipe.schedule, shape);
  pipe.unequal = true;
  pipes.push_back(std::move(pipe));
}

/// 2 where one of several schedules was refused.
int show_pipelines(const PipelineOptions& o) {
  const StepTimes times = times_of(o);
  std::vector<Pipe> pipes = pipes_of(o);
  if (pipes.size() > 1 && !(o.plot.empty() && o.trace.empty()))
    throw Error(Verdict::usage, "--plot and --trace draw one schedule: give one");
  const Contest contest = contest_for(o, pipes, times);
  judge(pipes, contest);
  check_plot(o.plot);
  for (const std::string* path : {&o.json, &o.csv, &o.trace})
    if (!path->empty()) check_writable(*path);
  if (o.plot.empty() && o.trace.empty()) add_baseline(pipes, contest);
  std::vector<Row> rows;
  std::vector<Entry> entries;
  bool refused = false;
  for (const Pipe& pipe : pipes) {
    refused = refused || !pipe.refused.empty();
    entries.push_back(pipe.refused.empty() ? show(o, contest, times, pipe, rows)
                                           : Entry{.name = pipe.name, .refused = pipe.refused});
  }
  if (contest.asked() || o.files.size() > 1)
    fmt::print("{}{}", contest.name.empty() ? "" : contest.name + "\n", ranking(std::move(entries)));
  Context context = Context::here();
  context.more.set("command", "pipeline").set("command_line", o.command_line);
  if (!o.json.empty()) write_results(o.json, context, rows);
  if (!o.csv.empty()) write_csv(o.csv, rows);
  return refused ? 2 : 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::PipelineOptions o;
  return run_program("lab pipeline: ", [&] {
    Session session(argc, argv);
    CommandLine line(
        "./lab pipeline",
        "Checks a pipeline's schedule, runs it in virtual time, draws it and prints its bubble and memory.");
    line.add("--stages", o.stages, "stages (p; default: 4, or the lines of --schedule-file)");
    line.add("--microbatches", o.microbatches, "microbatches per step (m)");
    line.add("--schedule", o.schedules,
             "naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v or dualpipev; separate several with commas");
    line.add("--chunks", o.chunks, "chunks per stage (v), for interleaved; 0: 2");
    line.add("--schedule-file", o.files,
             "instead: a file with one line per stage, F0 F1 B0 B1; I0 and W0 are B0's halves. Several files, "
             "separated by commas, are ranked");
    line.add("--stage-work", o.contest.work, "cost of each stage, which multiplies the times below: 1,1,1,1.4");
    line.add("--in-flight", o.contest.limits,
             "most microbatches in memory, a chunk of v counting 1/v: one number, or one for each stage");
    line.add("--contest", o.contest.pipeline,
             "stages, times and limits of a contest: 1 to 3 are exercise 24.7's, 4 and 5 have limits that differ");
    line.add("--forward-ms", o.forward_ms, "a stage's forward of a microbatch, all its chunks");
    line.add("--backward-ms", o.backward_ms, "likewise, the gradient of its input");
    line.add("--weight-ms", o.weight_ms, "likewise, the gradients of its weights");
    line.add("--comm-ms", o.comm_ms, "a hop from stage to stage");
    line.add("--columns", o.columns, "width of the chart; 0: the terminal's", {0, bench::kMostColumns});
    line.add("--no-chart", o.no_chart, "print only the numbers");
    line.add("--plot", o.plot, "the chart as a figure: .svg, .pdf or .png");
    line.add("--trace", o.trace, "write the timeline, for ./lab view, ./lab why and ui.perfetto.dev");
    line.add("--json", o.json, "JSON file with the rows and their context");
    line.add("--csv", o.csv, "rows");
    line.exclude("--schedule-file", {"--schedule", "--microbatches", "--chunks"});
    line.exclude("--no-chart", {"--columns"});
    line.exclude("--contest", {"--stages", "--microbatches", "--stage-work", "--in-flight", "--forward-ms",
                               "--backward-ms", "--weight-ms", "--comm-ms"});
    if (!line.parse(argc, argv)) return 0;
    o.command_line = repeatable("./lab pipeline", argc, argv);
    return bench::show_pipelines(o);
  });
}
