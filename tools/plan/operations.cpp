#include "tools/plan/operations.hpp"

#include <algorithm>
#include <map>

#include "common/runtime/run.hpp"
#include "labs/trainer/plan/simulate.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week25_3d/step_3d.hpp"

namespace lockstep::plan {

std::vector<OperationTotal> operations_of_microbatch(const Task& task, const week25::Strategy& strategy) {
  week25::Strategy alone = strategy;
  alone.dp = strategy.cp, alone.pp = alone.chunks = 1, alone.schedule = "1f1b", alone.zero = 0;
  Task small = task;
  small.global_batch = strategy.microbatch, small.shard_group = 0;
  const week25::Options3d options = options_of(small, alone);
  RunOptions run_options{.ranks = options.mesh.ranks(), .machine = task.cluster.machine, .phantom = true};
  run_options.trace = true;
  run_options.check_races = false;
  const Outcome outcome = run(run_options, Program([&](Rank me) -> Values {
                                week25::Worker worker =
                                    week25::make_worker(week25::make_mesh(me, options.mesh), options);
                                const double begin = me.now();
                                week25::accumulate_gradients(worker);
                                return {begin};
                              }))
                              .check();
  std::map<std::string, OperationTotal> totals;
  for (const TraceEvent& event : outcome.trace.events) {
    const TraceCompute* compute = event.compute();
    if (!compute || event.rank != 0 || event.begin < outcome.values[0][0]) continue;
    OperationTotal& total = totals[event.name];
    total.name = event.name;
    total.calls += 1;
    total.seconds += compute->own;
    total.flop += compute->flop;
    total.bytes += compute->moved;
  }
  std::vector<OperationTotal> all;
  for (auto& [name, total] : totals) all.push_back(std::move(total));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return all;
}

}  // namespace lockstep::plan
