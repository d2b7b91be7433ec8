// Cost of the simulator itself on this computer: messages per second and memory, by algorithm and ranks.
//
//   ./lab bench simulator --ranks 64,256,1024,4096
//   ./lab bench simulator --machine dgx-a100-hdr --ranks 1024 --algorithm rabenseifner,all_to_all --json out.json
//
// Each row is measured in its own processes, so that its peak of memory is its own, and by their CPU time: a simulation
// is one thread, so on a quiet computer that is its duration. The rate is that of a run whose ranks repeat the
// algorithm many times; the run that plays it once gives the cost of a short run, and the run that does not play it the
// cost of a rank. The table also shows whether rate and memory meet the simulator's goals.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "bench/programs/simulator_patterns.hpp"
#include "bench/support/bench.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::bench {
namespace {

constexpr double kGoalRate = 3e6;                                   // messages per second
constexpr double kGoalBytesPerRank = 20e3, kGoalBytesPerPeer = 76;  // all-to-all of 1,024 ranks: 100 MB in total

struct SimulatorOptions {
  std::vector<std::string> algorithms;
  std::string bytes = "64KiB";
  double messages = 1e6;
  bool data = false;
};

/// Cost of one run, from its start until its memory is released.
struct Cost {
  double cpu_seconds = 0;
  double seconds = 0;  // virtual
  std::uint64_t messages = 0;
  std::uint64_t grown_bytes = 0;  // peak of resident memory minus that before the run
  std::uint64_t peak_bytes = 0;
};

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Cost cost_of_run(const RunOptions& options, const Pattern& pattern, std::size_t elements, int turns) {
  const std::uint64_t before = resident_bytes();
  const double begin = cpu_seconds();
  Cost cost;
  {
    const Outcome outcome = run(options, [&](Rank me) {
      if (turns == 0) return;
      const Turn turn = pattern.set_up(me, me.allocate(elements, DType::f32, Category::gradient));
      for (int i = 0; i < turns; ++i) turn();
    });
    cost.seconds = outcome.check().seconds;
    cost.messages = outcome.messages;
  }
  cost.cpu_seconds = cpu_seconds() - begin;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  cost.peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  cost.grown_bytes = cost.peak_bytes - std::min(cost.peak_bytes, before);
  return cost;
}

/// Measures a run in a separate process.
Cost cost_apart(const RunOptions& options, const Pattern& pattern, std::size_t elements, int turns) {
  int ends[2];
  if (pipe(ends) != 0) throw Error(Verdict::fail, "the simulator's cost: no pipe");
  const pid_t child = fork();
  if (child < 0) throw Error(Verdict::fail, "the simulator's cost: no process");
  if (child == 0) {
    bool told = false;
    try {
      const Cost cost = cost_of_run(options, pattern, elements, turns);
      told = ::write(ends[1], &cost, sizeof cost) == static_cast<ssize_t>(sizeof cost);
    } catch (const std::exception& e) {
      fmt::print(stderr, "{}\n", e.what());
    }
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  Cost cost;
  const bool heard = ::read(ends[0], &cost, sizeof cost) == static_cast<ssize_t>(sizeof cost);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  if (!heard) throw Error(Verdict::fail, fmt::format("{} on {} ranks: the run failed", pattern.name, options.ranks));
  return cost;
}

/// The run with the median time.
Cost median_cost(const RunOptions& options, const Pattern& pattern, std::size_t elements, int turns) {
  constexpr std::size_t kRuns = 5;
  std::vector<Cost> costs;
  while (costs.size() < kRuns) costs.push_back(cost_apart(options, pattern, elements, turns));
  std::sort(costs.begin(), costs.end(), [](const Cost& a, const Cost& b) { return a.cpu_seconds < b.cpu_seconds; });
  return costs[kRuns / 2];
}

double goal_bytes(const Pattern& pattern, int ranks) {
  return kGoalBytesPerRank + (pattern.meets_all ? kGoalBytesPerPeer * (ranks - 1) : 0);
}

void print_columns() {
  fmt::print(
      "goals: at least {:.0f} million messages per second; at most {:.0f} KB per rank, and {:.0f} bytes more per peer ",
      kGoalRate / 1e6, kGoalBytesPerRank / 1e3, kGoalBytesPerPeer);
  fmt::print("where all send to all\n{:<20}{:>6}{:>10}{:>7}{:>9}{:>7}{:>7}{:>9}{:>8}{:>9}{:>7}{:>8}\n", "algorithm",
             "ranks", "messages", "turns", "seconds", "M/s", "goal", "M/s once", "µs/rank", "KB/rank", "goal",
             "peak MB");
}

void measure_pattern(Bench& bench, const RunOptions& options, const Pattern& pattern, const SimulatorOptions& o) {
  const std::uint64_t bytes = parse_byte_sizes(o.bytes).front();
  const std::size_t elements = f32_elements(bytes);
  const Cost none = median_cost(options, pattern, elements, 0), one = median_cost(options, pattern, elements, 1);
  if (one.messages == 0) return;  // with one rank
  const int turns = 1 + static_cast<int>(o.messages / static_cast<double>(one.messages));
  const Cost many = turns > 1 ? median_cost(options, pattern, elements, turns) : one;
  const double ranks = options.ranks, rate = static_cast<double>(many.messages) / many.cpu_seconds;
  const double rate_of_one = static_cast<double>(one.messages) / one.cpu_seconds;
  const double per_rank = none.cpu_seconds / ranks, memory = static_cast<double>(one.grown_bytes) / ranks;
  const double most = goal_bytes(pattern, options.ranks);
  const auto verdict = [](bool met) { return met ? "met" : "missed"; };
  fmt::print("{:<20}{:>6}{:>10}{:>7}{:>9.3f}{:>7.2f}{:>7}{:>9.2f}{:>8.2f}{:>9.1f}{:>7}{:>8.1f}\n", pattern.name,
             options.ranks, many.messages, turns, many.cpu_seconds, rate / 1e6, verdict(rate >= kGoalRate),
             rate_of_one / 1e6, per_rank * 1e6, memory / 1e3, verdict(memory <= most),
             static_cast<double>(one.peak_bytes) / 1e6);
  std::fflush(stdout);  // large runs take long
  Row row;
  row.set("backend", backend_name()).set("machine", options.machine.name).set("ranks", options.ranks);
  row.set("algorithm", pattern.name).set("bytes", bytes).set("phantom", options.phantom).set("seconds", one.seconds);
  row.set("messages", one.messages).set("turns", turns).set("cpu_seconds", one.cpu_seconds);
  row.set("messages_per_cpu_second", rate).set("messages_per_cpu_second_once", rate_of_one);
  row.set("goal_messages_per_cpu_second", kGoalRate).set("goal_bytes_per_rank", most);
  row.set("set_up_cpu_seconds_per_rank", per_rank).set("bytes_per_rank", memory).set("peak_rss_bytes", one.peak_bytes);
  bench.report(row);
}

void measure_simulator(Bench& bench, const SimulatorOptions& o) {
  const std::vector<Pattern> all = simulator_patterns();
  std::vector<std::string> names;
  for (const Pattern& pattern : all) names.push_back(pattern.name);
  for (const std::string& name : o.algorithms)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw Error(Verdict::usage, unknown_name("algorithm", name, names));
  if (!(o.messages >= 1) || o.messages > 1e9) throw Error(Verdict::usage, "--messages needs a number from 1 to 1e9");
  print_columns();
  for (const int ranks : bench.ranks())
    for (const Pattern& pattern : all) {
      const bool asked = std::find(o.algorithms.begin(), o.algorithms.end(), pattern.name) != o.algorithms.end();
      if (!asked && !o.algorithms.empty()) continue;
      RunOptions options = bench.run_options(ranks);
      options.phantom = !o.data;
      measure_pattern(bench, options, pattern, o);
    }
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::SimulatorOptions o;
  auto declare = [&](CommandLine& line) {
    line.add("--algorithm", o.algorithms, "programs to run, separated by commas; default: all of them");
    line.add("--bytes", o.bytes, "bytes of the array on each rank");
    line.add("--messages", o.messages, "least number of messages of the repeated run");
    line.add("--data", o.data, "with memory and arithmetic; default: modelled times only");
  };
  return bench::bench_main("simulator", "What the simulator itself costs: messages per second and memory.", argc, argv,
                           declare, [&](bench::Bench& bench) { bench::measure_simulator(bench, o); });
}
