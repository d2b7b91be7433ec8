#include "labs/trainer/plan/simulate.hpp"

#include <algorithm>

#include "common/runtime/run.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week25_3d/step_3d.hpp"

namespace lockstep::plan {

week25::Options3d options_of(const Task& task, const week25::Strategy& s) {
  week25::Options3d options;
  options.model = task.model;
  options.mesh = {.dp = s.dp, .tp = s.tp, .pp = s.pp};
  options.cp = s.cp;
  if (holders(task, s) < s.dp) options.shard_group = task.shard_group;
  options.batch = static_cast<std::size_t>(task.global_batch);
  options.sequence = task.length;
  options.microbatches = microbatches(task, s);
  options.schedule = s.schedule;
  options.chunks = s.chunks;
  options.zero = s.zero;
  options.sequence_parallel = s.sequence_parallel;
  using week22::Recompute;
  options.recompute = s.recompute ? Recompute::full : s.selective ? Recompute::selective : Recompute::none;
  options.stops_early = task.stops_early;
  options.overlap = task.overlap;
  options.overlap_scatter = task.overlap_scatter && s.sequence_parallel;
  options.overlap_gather = task.overlap_gather && (s.zero == 1 || s.zero == 2);
  options.reduce = task.model.gradients();
  options.wrapping = week25::parse_wrapping(task.units);
  week25::check(options);
  return options;
}

Simulated simulate(const Task& task, const week25::Strategy& strategy) {
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
