// Profile of a program's step on a GPU: its operations, each timed by events, summed by the line that calls them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "bench/support/bench.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::bench {

/// All calls of one operation from one place, in one step.
struct OperationTotal {
  std::string name, where;
  double calls = 0, seconds = 0, flop = 0, bytes = 0;
};

/// Profiles `steps` steps after two that are not counted; the longest first. The events make a step slightly longer.
inline std::vector<OperationTotal> operations_of(RunOptions options,
                                                 const std::function<std::function<void()>(Rank)>& prepare) {
  constexpr int kSteps = 3;
  options.trace = true;
  const Outcome outcome = lockstep::run(options, Program([&](Rank me) {
                                          const std::function<void()> step = prepare(me);
                                          for (int i = 0; i < 2; ++i) step();
                                          const double begin = me.now();
                                          for (int i = 0; i < kSteps; ++i) step();
                                          return Values{begin};
                                        }));
  outcome.check();
  std::map<std::pair<std::string, std::string>, OperationTotal> totals;
  for (const TraceEvent& event : outcome.trace.events) {
    const TraceCompute* compute = event.compute();
    if (!compute || event.begin < outcome.values[0][0]) continue;
    OperationTotal& total = totals[{event.name, event.where}];
    total.name = event.name;
    total.where = event.where;
    total.calls += 1;
    total.seconds += (event.end - event.begin) / kSteps;
    total.flop += compute->flop / kSteps;
    total.bytes += compute->moved / kSteps;
  }
  std::vector<OperationTotal> all;
  for (auto& [key, total] : totals) {
    total.calls /= kSteps;
    all.push_back(std::move(total));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return all;
}

/// Prints the longest `most` of them, and adds a row for each to the results.
inline void report_operations(Bench& bench, const std::string& model, const std::vector<OperationTotal>& all,
                              std::size_t most) {
  double seconds = 0;
  for (const OperationTotal& each : all) seconds += each.seconds;
  say("{:<66} {:>6} {:>10} {:>6}\n", "operations of a step, " + model, "calls", "time", "share");
  for (std::size_t i = 0; i < std::min(most, all.size()); ++i) {
    const OperationTotal& each = all[i];
    Row row;
    row.set("backend", backend_name()).set("model", model).set("operation", each.name).set("where", each.where);
    row.set("calls", each.calls).set("seconds", each.seconds).set("fraction_of_operations", each.seconds / seconds);
    row.set("flop_per_second", each.flop / each.seconds).set("bytes_per_second", each.bytes / each.seconds);
    row.set("samples", 3);
    bench.report(std::move(row));
    say("{:<66} {:>6.0f} {:>10} {:>5.1f}%  {:>6.1f} TFLOP/s  {}\n", each.name + " " + each.where, each.calls,
        format_seconds(each.seconds), 100 * each.seconds / seconds, each.flop / each.seconds / 1e12,
        format_bandwidth(each.bytes / each.seconds));
  }
}

}  // namespace lockstep::bench
