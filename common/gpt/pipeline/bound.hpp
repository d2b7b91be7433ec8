// How long a step of a pipeline takes at least, whatever the schedule.
#pragma once

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep {

/// A lower bound of the makespan of every schedule of `shape` that check_schedule accepts, by `by_chunk` as
/// time_schedule reads it and with at most `most_in_flight` (by stage; empty: no limit) microbatches × chunks: the
/// largest, over stages, of what must follow one another there. The optimum may be longer.
///
/// - Work: a stage begins after a microbatch has come to it, and does everything once.
/// - The way out: after its last input gradient, that microbatch's goes back through the stages before, to a last W.
/// - The way in: until the first gradient can be there a stage can only do forwards, as many as it may hold.
/// - The round trip: a microbatch is held from F to W while it goes to the loss and back; only so many at a time.
double shortest_makespan(const PipelineShape& shape, const std::vector<std::vector<StepTimes>>& by_chunk,
                         const std::vector<int>& most_in_flight = {});

}  // namespace lockstep
