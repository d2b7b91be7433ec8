#include "bench/support/bench.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>

#include "bench/support/calibration.hpp"
#include "bench/support/quiet.hpp"
#include "bench/support/timeline.hpp"
#include "bench/support/versions.hpp"
#include "common/runtime/device_notes.hpp"
#include "common/support/host/host.hpp"
#include "common/support/json/repeatable.hpp"
#include "common/support/json/row_fields.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/run_program.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::bench {
namespace {

const std::string kMachines = LOCKSTEP_SOURCE_DIR "/bench/machines";

/// Returns the machine; throws if it has fewer ranks.
Machine machine_for(const std::string& name, int ranks) {
  Machine machine = find_machine(name, kMachines);
  if (machine.capacity() == 0 || ranks <= machine.capacity()) return machine;
  std::string clusters;
  for (const std::string& other : machine_names(kMachines))
    if (other.starts_with(machine.name + "-")) clusters += (clusters.empty() ? "; clusters of it are " : ", ") + other;
  throw Error(Verdict::usage,
              fmt::format("machine {} holds {} ranks, not {}{}", machine.name, machine.capacity(), ranks, clusters));
}

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

/// The last column: bus bandwidth, or another rate of the row.
std::string rate_of(const Row& row) {
  const double bandwidth = number(row, "busbw_gb_per_s"), tokens = number(row, "tokens_per_second");
  const double flop = number(row, "flop_per_second"), mfu = number(row, "mfu");
  const double library = number(row, "times_library"), gloo = number(row, "times_gloo");
  std::string text;
  if (bandwidth > 0) {
    text = format_bandwidth(bandwidth * 1e9);
    if (std::isfinite(library) && library != 1) text += fmt::format(", {:.2f} × the library's", library);
    if (std::isfinite(gloo) && gloo != 1) text += fmt::format(", {:.2f} × Gloo's", gloo);
    const double floor = number(row, "floor_seconds") / number(row, "seconds");
    if (std::isfinite(floor)) text += fmt::format(", {:.0f}% of a perfect network's", 100 * floor);
    return text;
  }
  if (std::isfinite(tokens)) text = fmt::format("{:.0f} tokens/s  ", tokens);
  if (std::isfinite(flop)) text += fmt::format("{:.3g} TFLOP/s", flop / 1e12);
  if (std::isfinite(mfu)) text += fmt::format(" = {:.1f}% of peak", 100 * mfu);
  return text;
}

}  // namespace

struct Bench::Group {
  std::string label;
  RunOptions options;
  std::vector<Contender> contenders;
  Finish finish;
  std::vector<Measurement> measurements;  // empty until the first contender is measured
  std::exception_ptr failure;
};

/// Prints Google Benchmark's results as a table: measured and predicted times. Prints nothing unless this process
/// judges.
class Bench::Table : public benchmark::BenchmarkReporter {
 public:
  /// `longest`: length of the longest name in the table.
  Table(const std::vector<Row>& rows, std::size_t longest) : rows_(rows), width_(std::max<std::size_t>(44, longest)) {}

  bool ReportContext(const Context&) override {
    say("{:<{}} {:>10}  {:<21} {:>10} {:>8} {:>12}\n", "", width_, "median", "95% interval", "predicted", "error",
        "rate");
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    // A benchmark that failed adds no row. (Versions of the library report a failure differently.)
    if (!is_judge() || runs.empty() || rows_.size() == printed_) return;
    printed_ = rows_.size();
    const Row& row = rows_.back();  // the one that was just measured
    double seconds = number(row, "seconds"), predicted = number(row, "predicted_seconds");
    double low = number(row, "seconds_low"), high = number(row, "seconds_high");
    std::string interval = low < high ? fmt::format("{} – {}", format_seconds(low), format_seconds(high)) : "";
    bool has_prediction = std::isfinite(predicted) && seconds > 0;
    double error = std::round(1000 * (predicted / seconds - 1)) / 10 + 0.0;  // + 0.0: never "−0.0"
    fmt::print("{:<{}} {:>10}  {:<21} {:>10} {:>8} {:>12}\n", runs.front().run_name.function_name, width_,
               format_seconds(seconds), interval, has_prediction ? format_seconds(predicted) : "",
               has_prediction ? fmt::format("{:+.1f}%", error) : "", rate_of(row));
    std::fflush(stdout);
  }

 private:
  const std::vector<Row>& rows_;
  std::size_t width_;
  std::size_t printed_ = 0;  // number of rows printed
};

Bench::Bench(std::string name, Options options, int available_ranks)
    : name_(std::move(name)), options_(std::move(options)) {
  for (const std::string& text : options_.ranks) ranks_.push_back(count_in("--ranks", text));
  if (ranks_.empty()) ranks_ = {available_ranks > 0 ? available_ranks : 4};
  const int most = *std::max_element(ranks_.begin(), ranks_.end());
  if (available_ranks > 0 && most > available_ranks)
    throw Error(Verdict::usage, fmt::format("--ranks {}: only {} processes were started", most, available_ranks));
  if (options_.scale != 1 && options_.emulate.empty()) throw Error(Verdict::usage, "--scale is only for --emulate");
  if (time_is_virtual() && !options_.emulate.empty())
    throw Error(Verdict::usage, "--emulate delays real processes to modelled times; in the simulator use --machine");
  if (!options_.emulate.empty() && !on_mpi())
    throw Error(Verdict::usage, "--emulate is for --backend mpi, whose processes can be delayed");
  if (!time_is_virtual() && options_.phantom)
    throw Error(Verdict::usage, "--phantom: only the simulator can run without memory");
  if (options_.tf32 && !on_gpu()) throw Error(Verdict::usage, "--tf32 is for GPUs: --backend cuda or nccl");
  if (!options_.emulate.empty()) options_.machine = options_.emulate;
  machine_named_ = !options_.machine.empty();
  if (!machine_named_ && time_is_virtual()) options_.machine = "uniform";

  run_options_.ranks = most;
  run_options_.phantom = options_.phantom;
  run_options_.emulate = !options_.emulate.empty();
  run_options_.emulate_scale = options_.scale;
  run_options_.check_races = false;  // speeds up runs
  run_options_.poison = false;
  run_options_.tf32 = options_.tf32;
  run_options_.threads = 1;
  has_machine_ = !options_.machine.empty();
  if (has_machine_)
    run_options_.machine = machine_for(options_.machine, most);
  else if (name_ != "calibrate")
    find_calibrated_machine(std::max(available_ranks, 1));
  // On every process, although only one writes: if one process rejected the path alone, the others would wait for it.
  if (!options_.json.empty()) check_writable(options_.json);
  if (!options_.csv.empty()) check_writable(options_.csv);
  if (!options_.timeline.empty()) check_writable(options_.timeline + ".trace");
}

/// Predicts from the file of ./lab calibrate if every process finds the same one.
void Bench::find_calibrated_machine(int available_ranks) {
  const std::string path = calibrated_file(backend_name());
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  RunOptions options = run_options_;
  options.ranks = available_ranks;
  const auto mark = static_cast<double>(std::hash<std::string>()(text) >> 12);  // exact as a double
  const Outcome outcome = lockstep::run(options, [=](Rank) -> Values { return {mark}; });
  for (const Values& of_rank : outcome.check().values)
    if (of_rank[0] != outcome.values[0][0] || text.empty()) return;
  run_options_.machine = read_machine(path);
  run_options_.machine.name = "host";
  has_machine_ = true;
  about_.set("predicted_from", run_options_.machine.description).set("machine_file", path);
  say("predicting from {}: {}\n", path, run_options_.machine.description);
  if (run_options_.machine.measured.exchanges.empty() || options.ranks < 2 || !has_core_each(options.ranks)) return;
  links_.emplace(run_options_.machine.measured);
  options.machine = run_options_.machine;
  follow_links(options);
  run_options_.machine.measured = options.machine.measured;
}

/// Sets the machine's tables to those of its links' current state.
void Bench::follow_links(RunOptions& options) {
  const int known = links_->states();
  options.machine.measured = links_->now(options);
  if (links_->states() == known) return;
  about_.set("link_states", links_->states());
  say("message times have changed ({} of {}): all sizes are measured again\n",
      format_seconds(line_at(options.machine.measured.exchanges, Probes::kBytes, 0).at(Probes::kBytes)),
      format_bytes(Probes::kBytes));
}

RunOptions Bench::run_options(int ranks) const {
  RunOptions options = run_options_;
  options.ranks = ranks;
  return options;
}

void Bench::want_one_rank(const std::string& instead) const {
  if (!options_.ranks.empty() && ranks_ != std::vector<int>{1})
    throw Error(Verdict::usage, fmt::format("{} is measured on one rank: {}", name_, instead));
}

std::vector<RunOptions> Bench::every_machine(int ranks) const {
  std::vector<RunOptions> all;
  if (!time_is_virtual() || machine_named_ || !options_.ranks.empty()) return all;
  std::string node = "-";
  for (const std::string& name : machine_names(kMachines)) {  // sorted, so clusters come after their nodes
    if (name.starts_with(node + "-")) continue;
    node = name;
    all.push_back(run_options(ranks));
    all.back().machine = machine_for(name, ranks);
  }
  return all;
}

std::shared_ptr<const Machine> Bench::machine_of_links(const RunOptions& options) const {
  const bool has_levels = has_machine_ && options.machine.measured.exchanges.empty();
  return has_levels ? std::make_shared<const Machine>(options.machine) : nullptr;
}

LinkPrices Bench::prices(const RunOptions& options) {
  const int ranks = options.ranks;
  if (has_machine_) {
    const Machine& machine = options.machine;
    const MeasuredPrices& tables = machine.measured;
    if (ranks == 1) return {.gamma = machine.gamma(), .launch = machine.launch, .tables = tables};
    const int level = machine.level_between(0, ranks - 1);
    return {machine.alpha(level), machine.beta(level), machine.gamma(), machine.launch, tables};
  }
  if (!measured_prices_) {
    measured_prices_ = measure_links(run_options_);
    const LinkPrices& p = *measured_prices_;
    about_.set("predicted_from", "a ping-pong of two ranks and an addition, measured in the same run");
    about_.set("alpha_seconds", p.alpha).set("beta_seconds_per_byte", p.beta);
    about_.set("gamma_seconds_per_byte", p.gamma).set("launch_seconds", p.launch);
    say("measured for predictions: α = {}, 1/β = {} (ping-pong), 1/γ = {} (addition)\n", format_seconds(p.alpha),
        format_bandwidth(1 / p.beta), format_bandwidth(1 / p.gamma));
  }
  LinkPrices prices = *measured_prices_;
  if (ranks == 1) prices.alpha = prices.beta = 0;
  return prices;
}

void Bench::add(const std::string& label, RunOptions options, std::vector<Contender> contenders, Finish finish) {
  auto group = std::make_shared<Group>(Group{
      .label = label, .options = std::move(options), .contenders = std::move(contenders), .finish = std::move(finish)});
  groups_.push_back(group);
  for (std::size_t i = 0; i < group->contenders.size(); ++i) {
    std::string name = fmt::format("{}/{}/{}", name_, group->contenders[i].name, label);
    longest_name_ = std::max(longest_name_, name.size());
    benchmark::RegisterBenchmark(name.c_str(),
                                 [this, group, i](benchmark::State& state) {
                                   try {
                                     measure_one(*group, i);
                                     for (auto _ : state) state.SetIterationTime(group->measurements[i].seconds.value);
                                   } catch (...) {
                                     group->failure = std::current_exception();
                                     state.SkipWithError("failed");
                                   }
                                 })
        ->UseManualTime()
        ->Iterations(1);
  }
}

/// Measures again, up to three times in all, if the links' state changes in the meantime.
void Bench::predict_and_measure(Group& group) {
  for (int attempt = 1; attempt <= 3; ++attempt) {
    Plan plan{.samples = options_.samples};
    if (links_ && group.options.ranks > 1) follow_links(group.options);
    for (Contender& contender : group.contenders)
      if (contender.predict && !shares_memory()) contender.predicted_seconds = contender.predict(prices(group.options));
    if (has_machine_) expect_probes(plan, group.options.machine.measured);
    group.measurements = measure(group.options, group.contenders, plan);
    if (!links_ || is_quiet(group.options.machine.measured, group.measurements[0].probes)) return;
  }
}

/// Measures the whole group for its first contender, since contenders take turns.
void Bench::measure_one(Group& group, std::size_t contender) {
  if (group.failure) std::rethrow_exception(group.failure);
  if (group.measurements.empty()) predict_and_measure(group);
  const Measurement& measurement = group.measurements[contender];
  Row row = row_of(group.options, measurement);
  group.finish(group.measurements, contender, row);
  rows_.push_back(std::move(row));
}

Row Bench::row_of(const RunOptions& options, const Measurement& measurement) const {
  Row row;
  row.set("backend", backend_name()).set("machine", has_machine_ ? options.machine.name : "host");
  row.set("emulated", run_options_.emulate)
      .set("emulate_scale", options_.scale)
      .set("ranks", options.ranks)
      .set("algorithm", measurement.contender);
  row.set("seconds", measurement.seconds.value).set("predicted_seconds", measurement.predicted_seconds);
  row.set("samples", measurement.seconds.samples);
  row.set("seconds_low", measurement.seconds.low).set("seconds_high", measurement.seconds.high);
  if (measurement.counted)
    row.set("messages", measurement.messages).set("bytes_sent_per_rank_max", measurement.bytes_sent_per_rank_max);
  row.set("verified", measurement.verified);
  if (on_own_cores(options))
    set_quiet(row, has_machine_ ? options.machine.measured : MeasuredPrices{}, options, measurement.probes);
  if (options.emulate) set_quiet(row, measurement.seconds);
  if (time_is_virtual()) row.set("wall_seconds", measurement.wall_seconds).set("peak_rss_bytes", peak_rss_bytes());
  return row;
}

Context Bench::context() {
  lockstep::Context context = lockstep::Context::here();
  for (auto& version : library_versions()) context.versions.push_back(version);
  return context;
}

/// Prints the machine, if the time is not this computer's, and that predictions assume one core per rank.
void Bench::say_where() const {
  std::set<std::string> machines;
  for (const auto& group : groups_) machines.insert(group->options.machine.name);
  if (time_is_virtual() && machines.size() == 1) fmt::print("virtual time on machine {}\n", *machines.begin());
  const int most = *std::max_element(ranks_.begin(), ranks_.end());
  if (on_own_cores(run_options_) && !has_core_each(most))
    fmt::print("{} ranks share cores, so they run in turn; predictions assume a core for each\n", most);
}

/// Draws one run of each contender of the first group.
void Bench::draw_timelines() const {
  if (options_.timeline.empty() || draws_itself_) return;
  const Group& first = *groups_.front();
  std::string what = fmt::format("{}, {}", name_, first.label);
  if (first.label.find("ranks") == std::string::npos) what += ", " + counted(first.options.ranks, "rank");
  if (has_machine_) what += " of " + first.options.machine.name;
  if (write_timelines(options_.timeline, what, first.options, first.contenders) == 0)
    throw Error(Verdict::usage, "--timeline: there is no timeline of these contenders");
}

void Bench::run(const std::function<void(const std::vector<Row>&)>& after) {
  if (!options_.timeline.empty() && !draws_itself_ && groups_.empty())
    throw Error(Verdict::usage, fmt::format("--timeline: {} measures nothing here that has a timeline", name_));
  std::string program = name_;
  char* arguments[] = {program.data(), nullptr};
  int count = 1;
  benchmark::Initialize(&count, arguments);
  Table table(rows_, longest_name_);
  if (is_judge() && !groups_.empty()) say_where();
  if (!groups_.empty()) benchmark::RunSpecifiedBenchmarks(&table);
  benchmark::ClearRegisteredBenchmarks();
  for (const auto& group : groups_)
    if (group->failure) std::rethrow_exception(group->failure);
  draw_timelines();
  if (!is_judge()) return;
  lockstep::Context context = Bench::context();
  for (auto& [field, value] : surroundings()) about_.set(field, value);
  for (const DeviceNote& note : device_notes()) {
    about_.set(note.field, note.value);
    if (!note.line.empty()) fmt::print("{}\n", note.line);
  }
  about_.set("command", name_);
  if (after) after(rows_);
  fmt::print("{}", what_was_not_quiet(rows_));
  context.more = about_;
  rows_.insert(rows_.begin(), reported_.begin(), reported_.end());
  if (!options_.json.empty()) write_results(options_.json, context, rows_);
  if (!options_.csv.empty()) write_csv(options_.csv, rows_);
}

namespace {

std::string typed(const std::string& name) {
  const std::string command = name == "calibrate" ? "./lab calibrate" : "./lab bench " + name;
  return command + (time_is_virtual() && name != "calibrate" ? "" : fmt::format(" --backend {}", backend_name()));
}

int run_benchmark(const Session& session, const std::string& name, const std::string& description, int argc,
                  char** argv, const std::function<void(CommandLine&)>& declare,
                  const std::function<void(Bench&)>& body) {
  Options options;
  CommandLine line("./lab bench " + name, description);
  line.add("--ranks", options.ranks,
           "number of ranks, or several separated by commas; default: all processes, or 4 where ranks share one");
  line.add("--machine", options.machine,
           "name in bench/machines, or a file: the machine that is simulated and predicted");
  line.add("--emulate", options.emulate, "MPI: delay operations to this machine's modelled times");
  line.add("--scale", options.scale,
           "with --emulate: make all modelled times this many times longer, where links are faster than this computer",
           Real{1e-6, 1e6});
  line.exclude("--emulate", {"--machine"});
  line.add("--samples", options.samples, "samples per contender, at most", Whole{1});
  line.add("--phantom", options.phantom, "simulator: no memory and no arithmetic, only modelled times");
  line.add("--tf32", options.tf32, "GPUs: round the operands of fp32 matrix products to 10 bits, for tensor cores");
  line.add("--json", options.json, "write context and rows to this JSON file");
  line.add("--csv", options.csv, "write the rows to this CSV file");
  line.add("--timeline", options.timeline, "record one run of each contender, at the first size: PREFIX_NAME.trace");
  declare(line);
  if (!line.parse(argc, argv, is_judge())) return 0;
  Bench bench(name, options, session.available_ranks());
  bench.about().set("command_line", repeatable(typed(name), argc, argv));
  body(bench);
  return 0;
}

}  // namespace

int bench_main(const std::string& name, const std::string& description, int argc, char** argv,
               const std::function<void(CommandLine&)>& declare, const std::function<void(Bench&)>& body) {
  const auto in_session = [&] {
    Session session(argc, argv);  // reports the benchmark's errors while it lives
    return run_program(
        "", [&] { return run_benchmark(session, name, description, argc, argv, declare, body); }, is_judge);
  };
  return run_program("", in_session, is_judge);
}

}  // namespace lockstep::bench
