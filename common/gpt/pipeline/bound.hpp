// A lower bound on the time of a pipeline's step that holds for every schedule.
#pragma once

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep {

/// Returns a lower bound of the makespan of every schedule of `shape` that check_schedule accepts, with the times of
/// `by_chunk` (see time_schedule) and at most `most_in_flight` (by stage; empty: no limit) microbatches × chunks. It is
/// the largest, over stages, of the durations that must follow one another there. The optimum may be longer.
///
/// - Work: a stage begins after a microbatch has reached it, and does everything once.
/// - The way out: after a stage's last input gradient, that microbatch passes back through the stages before it, to a
///   last W.
/// - The way in: until the first gradient can arrive, a stage can only do forwards, as many as it may hold.
/// - The round trip: a microbatch is held from F to W while it travels to the loss and back; only so many fit at a
///   time.
double shortest_makespan(const PipelineShape& shape, const std::vector<std::vector<StepTimes>>& by_chunk,
                         const std::vector<int>& most_in_flight = {});

}  // namespace lockstep
