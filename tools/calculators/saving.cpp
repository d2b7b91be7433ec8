// ./lab bench saving: how often to save a run that fails at random: the waste of several intervals by the formulas of
// exercise 25.5, and by a simulation of as many days as are asked for. With --ranks: the benefit of continuing without
// the dead rank (25.8), for ranks that fail more and less often.
//
//   ./lab bench saving --save 60s --restart 10min --mtbf 3.1h
//   ./lab bench saving --save 2.5ms --restart 4s --mtbf 10min --step 55ms --complete 40ms       what ./lab train
//   measured
//   ./lab bench saving --ranks 16384 --mtbf 3.1h --snapshot 0.2s --resume 60s --repair 4h
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/error.hpp"
#include "common/support/json/repeatable.hpp"
#include "common/support/json/results.hpp"
#include "common/support/text/command_line.hpp"
#include "common/support/text/run_program.hpp"
#include "common/support/text/units.hpp"
#include "labs/week25_3d/failing_run.hpp"
#include "labs/week25_3d/survivors.hpp"

namespace lockstep::bench {
namespace {

using week25::SavingCosts, week25::TimeSpent;

struct SavingOptions {
  std::string save = "60s", restart = "10min", mtbf = "3.1h", step, complete;
  int ranks = 0;
  std::string snapshot = "200ms", resume = "60s", repair = "4h", join = "10s";
  std::vector<std::string> intervals;
  double days = 1000;
  int seed = 1;
  std::string json, csv;
  std::string command_line;  // that repeats it
};

/// "90", "90s", "2.5ms", "10min", "3.1h" or "2d": seconds.
double seconds_in(const std::string& option, const std::string& text, double least) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  for (const auto& [name, seconds] :
       {std::pair{"", 1.0}, {"ms", 1e-3}, {"s", 1.0}, {"min", 60.0}, {"h", 3600.0}, {"d", 86'400.0}})
    if (error == std::errc{} && unit == name && value * seconds >= least && value * seconds <= 1e12)
      return value * seconds;
  throw Error(Verdict::usage, fmt::format("{} needs a time, such as 90s, 2.5ms, 10min, 3.1h or 2d, of at least {:g} s, "
                                          "not '{}'",
                                          option, least, text));
}

struct Contender {
  std::string name;
  double seconds = 0;
};

/// The interval for which waste(interval) is least, by golden-section search: the formulas are compared with it.
template <class Waste>
double best_interval(double mtbf, const Waste& waste) {
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double low = std::log(mtbf) - 20, high = std::log(4 * mtbf);
  while (high - low > 1e-5) {
    const double a = high - golden * (high - low), b = low + golden * (high - low);
    (waste(std::exp(a)) < waste(std::exp(b)) ? high : low) = waste(std::exp(a)) < waste(std::exp(b)) ? b : a;
  }
  return std::exp((low + high) / 2);
}
double least_waste(const SavingCosts& costs) {
  return best_interval(costs.mtbf, [&](double interval) { return expected_waste(costs, interval); });
}

std::vector<Contender> contenders(const SavingCosts& costs, const SavingOptions& o) {
  std::vector<Contender> all;
  for (const std::string& text : o.intervals) all.push_back({text, seconds_in("--interval", text, 1e-6)});
  if (!all.empty()) return all;
  const week25::Intervals found = week25::best_intervals(costs);
  for (const auto& [name, times] :
       {std::pair{"Daly's / 8", 0.125}, {"Daly's / 4", 0.25}, {"Daly's / 2", 0.5}, {"Daly's", 1.0}})
    all.push_back({name, times * found.daly});
  all.push_back({"Young's", found.young});
  all.push_back({"least waste", least_waste(costs)});
  for (const auto& [name, times] : {std::pair{"Daly's × 2", 2.0}, {"Daly's × 4", 4.0}, {"Daly's × 8", 8.0}})
    all.push_back({name, times * found.daly});
  std::stable_sort(all.begin(), all.end(),
                   [](const Contender& a, const Contender& b) { return a.seconds < b.seconds; });
  return all;
}

Row row_of(const SavingCosts& costs, const Contender& contender, const SavingOptions& o) {
  const double seconds = o.days * 86'400;
  const auto seed = static_cast<std::uint64_t>(o.seed);
  const TimeSpent spent = simulate(costs, contender.seconds, seconds, week25::Failures(seed, costs.mtbf));
  Row row;
  row.set("interval", contender.name).set("interval_seconds", contender.seconds);
  row.set("predicted_waste", expected_waste(costs, contender.seconds)).set("waste", 1 - spent.work / seconds);
  row.set("saves_share", spent.saves / seconds).set("lost_share", spent.lost / seconds);
  row.set("restarts_share", spent.restarts / seconds).set("failures", spent.failures);
  fmt::print("{:>12} {:>10} {:>12.3f} {:>12.3f} {:>9.3f} {:>9.3f} {:>9.3f}\n", contender.name,
             format_seconds(contender.seconds), 100 * expected_waste(costs, contender.seconds),
             100 * (1 - spent.work / seconds), 100 * spent.saves / seconds, 100 * spent.lost / seconds,
             100 * spent.restarts / seconds);
  return row;
}

/// Restarting from a file, compared with continuing from copies in memory, each with its best interval.
Row goodput_row(SavingCosts costs, week25::SurvivorCosts survivors) {
  const double restarted = least_waste(costs);
  const auto lost = [&](double interval) {
    survivors.interval = interval;
    return 1 - goodput(survivors);
  };
  survivors.interval = best_interval(costs.mtbf, lost);
  const double from_file = 1 - expected_waste(costs, restarted), continued = goodput(survivors),
               loss = time_to_loss(survivors, survivors.resume + survivors.snapshot);
  fmt::print("{:>16} {:>10} {:>8.2f} {:>10} {:>8.2f} {:>10.3g} years\n", format_seconds(costs.mtbf),
             format_seconds(restarted), 100 * from_file, format_seconds(survivors.interval), 100 * continued,
             loss / (365.25 * 86'400));
  Row row;
  row.set("mtbf_seconds", costs.mtbf).set("restart_interval_seconds", restarted).set("restart_goodput", from_file);
  row.set("survivors_interval_seconds", survivors.interval).set("survivors_goodput", continued);
  row.set("seconds_to_loss", loss);
  return row;
}

/// For jobs that fail 16 times as often to 16 times as rarely.
std::vector<Row> compare_with_survivors(const SavingCosts& costs, const SavingOptions& o) {
  const week25::SurvivorCosts survivors{.ranks = o.ranks,
                                        .snapshot = seconds_in("--snapshot", o.snapshot, 1e-6),
                                        .resume = seconds_in("--resume", o.resume, 0),
                                        .repair = seconds_in("--repair", o.repair, 0),
                                        .join = seconds_in("--join", o.join, 0)};
  fmt::print(
      "{} ranks. From a file: a save of {}, a restart of {}.\nFrom copies in memory: a snapshot of {}, {} until "
      "the others continue, {} until one joins in {}.\nGoodput in %:\n",
      o.ranks, format_seconds(costs.save), format_seconds(costs.restart), format_seconds(survivors.snapshot),
      format_seconds(survivors.resume), format_seconds(survivors.repair), format_seconds(survivors.join));
  fmt::print("{:>16} {:>10} {:>8} {:>10} {:>8} {:>10}\n", "a failure every", "save each", "goodput", "copy each",
             "goodput", "both lost");
  std::vector<Row> rows;
  for (const double times : {1.0 / 16, 0.25, 1.0, 4.0, 16.0}) {
    SavingCosts at = costs;
    at.mtbf *= times;
    week25::SurvivorCosts also = survivors;
    also.mtbf = at.mtbf * o.ranks;
    rows.push_back(goodput_row(at, also));
  }
  return rows;
}

std::vector<Row> compare_intervals(const SavingCosts& costs, const SavingOptions& o) {
  const std::vector<Contender> all = contenders(costs, o);
  double events = 0;
  for (const Contender& one : all) events += o.days * 86'400 * (1 / (one.seconds + costs.save) + 1 / costs.mtbf);
  if (events > 1e9)
    throw Error(Verdict::usage,
                fmt::format("{:g} days are {:.1e} saves and failures: use fewer --days", o.days, events));
  fmt::print("a save of {}, a restart of {}, a failure every {}; {:g} days, in % of them\n", format_seconds(costs.save),
             format_seconds(costs.restart), format_seconds(costs.mtbf), o.days);
  fmt::print("{:>12} {:>10} {:>12} {:>12} {:>9} {:>9} {:>9}\n", "interval", "", "by formula", "simulated", "saves",
             "lost", "restarts");
  std::vector<Row> rows;
  for (const Contender& contender : all) rows.push_back(row_of(costs, contender, o));
  if (!o.step.empty()) {
    const double step = seconds_in("--step", o.step, 1e-6);
    const double complete = o.complete.empty() ? costs.save : seconds_in("--complete", o.complete, 1e-6);
    const int every = week25::steps_between_saves({step, costs.save, complete}, costs.restart, costs.mtbf);
    fmt::print("--checkpoint-every {}: {} of work between two saves\n", every, format_seconds(every * step));
    rows.front().set("checkpoint_every", every);
  }
  return rows;
}

void calculate(const SavingOptions& o) {
  const SavingCosts costs{.save = seconds_in("--save", o.save, 1e-6),
                          .restart = seconds_in("--restart", o.restart, 0),
                          .mtbf = seconds_in("--mtbf", o.mtbf, 1e-3)};
  for (const std::string* path : {&o.json, &o.csv})
    if (!path->empty()) check_writable(*path);
  const std::vector<Row> rows = o.ranks > 0 ? compare_with_survivors(costs, o) : compare_intervals(costs, o);
  Context context = Context::here();
  context.more.set("command", "saving").set("command_line", o.command_line);
  context.more.set("save_seconds", costs.save).set("restart_seconds", costs.restart).set("mtbf_seconds", costs.mtbf);
  if (o.ranks > 0)
    context.more.set("ranks", o.ranks);
  else
    context.more.set("days", o.days).set("seed", o.seed);
  if (!o.json.empty()) write_results(o.json, context, rows);
  if (!o.csv.empty()) write_csv(o.csv, rows);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::SavingOptions o;
  return run_program("lab bench saving: ", [&] {
    CommandLine line("./lab bench saving", "How often to save a run that fails at random: by formula, and simulated.");
    line.add("--save", o.save, "training stops for a save: 60s, 2.5ms");
    line.add("--restart", o.restart, "from a failure until training resumes: 10min");
    line.add("--mtbf", o.mtbf, "mean time between failures of the whole job: 3.1h");
    line.add("--interval", o.intervals, "work between two saves; separate several with commas; default: around Daly's");
    line.add("--step", o.step, "seconds of a training step: prints --checkpoint-every");
    line.add("--complete", o.complete, "with --step: time until a save is complete, while training continues");
    line.add("--ranks", o.ranks, "compare with continuing without the rank that died (25.8): how many ranks there are",
             Whole{3, 1 << 24});
    line.add("--snapshot", o.snapshot, "with --ranks: training stops for a copy in a neighbour's memory");
    line.add("--resume", o.resume, "with --ranks: from a failure until the others train on");
    line.add("--repair", o.repair, "with --ranks: from a failure until another rank joins");
    line.add("--join", o.join, "with --ranks: training stops when it does");
    line.add("--days", o.days, "days to simulate", Real{1e-3, 1e6});
    line.add("--seed", o.seed, "seed of the failures", Whole{});
    line.add("--json", o.json, "JSON file with the rows and their context");
    line.add("--csv", o.csv, "rows");
    if (!line.parse(argc, argv)) return 0;
    if (!o.complete.empty() && o.step.empty())
      throw Error(Verdict::usage, "--complete sets the minimum number of steps between saves: add --step");
    o.command_line = repeatable("./lab bench saving", argc, argv);
    bench::calculate(o);
    return 0;
  });
}
