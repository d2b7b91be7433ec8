#include "labs/trainer/plan/halves.hpp"

#include <algorithm>

#include "labs/week24_pipeline/schedules_by_name.hpp"

namespace lockstep::plan {

namespace {

using week25::StageWork;
using week25::Strategy;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

StageSchedule steps_of(const StageSchedule& steps, int chunk) {
  StageSchedule own;
  std::copy_if(steps.begin(), steps.end(), std::back_inserter(own), [&](const Step& s) { return s.chunk == chunk; });
  return own;
}

/// Largest number of blocks that wait at one time for the second half of a microbatch's backward.
double delayed_blocks(const StageSchedule& steps, const std::vector<ChunkShare>& chunks) {
  double now = 0, most = 0;
  for (const Step& step : steps) {
    const double blocks = chunks[index(step.chunk)].blocks;
    if (step.work == Work::input_gradient) most = std::max(most, now += blocks);
    if (step.work == Work::weight_gradient) now -= blocks;
  }
  return most;
}

/// Mean over chunks, weighted by their microbatches in flight: times in_flight (25.3a) it is the memory that the stage
/// keeps.
double mean_kept_bytes(const StageSchedule& steps, const std::vector<ChunkShare>& chunks) {
  double bytes = 0, held = 0;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const double peak = peak_in_flight(steps_of(steps, static_cast<int>(c)));
    bytes += peak * chunks[c].kept_bytes;
    held += peak / static_cast<double>(chunks.size());
  }
  return bytes / held;
}

}  // namespace

void add_halves(const Strategy& strategy, const std::vector<std::vector<ChunkShare>>& chunks, double later_bytes,
                week25::Workload& work) {
  const int p = strategy.pp, m = std::min(work.microbatches, 3 * p);  // more microbatches change nothing here
  const Schedule schedule =
      week24::make_schedule(strategy.schedule, week24::shape_of(strategy.schedule, p, m, strategy.chunks));
  for (std::size_t s = 0; s < work.stages.size(); ++s) {
    StageWork& stage = work.stages[s];
    stage.working_bytes += delayed_blocks(schedule[s], chunks[s]) * later_bytes;
    stage.kept_bytes = mean_kept_bytes(schedule[s], chunks[s]);
    stage.window = 0;
  }
}

}  // namespace lockstep::plan
