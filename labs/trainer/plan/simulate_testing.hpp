// For tests: simulates one step of a strategy, phantom, to compare with its prediction.
#pragma once

#include <algorithm>

#include "common/runtime/run.hpp"
#include "labs/trainer/plan/simulate.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week25_3d/step_3d.hpp"

namespace lockstep::plan {

struct Simulated {
  double seconds = 0;       ///< duration of the slowest rank's step
  double memory_bytes = 0;  ///< peak of the rank that needs most
};
/// Runs the 3D step of 25.2 on all ranks. For small clusters: every rank and message is simulated.
inline Simulated simulate(const Task& task, const week25::Strategy& strategy) {
  const week25::Options3d options = options_of(task, strategy);
  RunOptions run_options{.ranks = options.mesh.ranks(), .machine = task.cluster.machine, .phantom = true};
  run_options.check_races = false;
  const Outcome outcome =
      run(run_options, Program([&](Rank me) -> Values {
            week25::Worker worker = week25::make_worker(week25::make_mesh(me, options.mesh), options);
            week21::ring_all_reduce(me, me.allocate(static_cast<std::size_t>(me.size()), DType::f32, Category::buffer));
            const auto step = [&] {
              week25::accumulate_gradients(worker);
              week25::update(worker, 1e-4f, 1);
            };
            if (options.overlap_gather) step();  // the next step hides its gathers
            const double begin = me.now();       // the last rank's time is used
            step();
            const double end = me.now();
            week25::finish_gathers(worker);
            return {begin, end};
          }))
          .check();
  double begin = 0, end = 0;
  Simulated simulated;
  for (const Values& values : outcome.values) begin = std::max(begin, values[0]), end = std::max(end, values[1]);
  simulated.seconds = end - begin;
  for (const RankLedger& ledger : outcome.ledgers)
    simulated.memory_bytes = std::max(simulated.memory_bytes, static_cast<double>(ledger.memory.peak_total));
  return simulated;
}

}  // namespace lockstep::plan
