#include "labs/trainer/plan/simulate.hpp"

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

}  // namespace lockstep::plan
