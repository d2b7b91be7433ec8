// A pipeline's run as traces in which each step has its name, for charts and for replays.
#pragma once

#include <vector>

#include "common/analysis/write_trace.hpp"
#include "labs/week24_pipeline/timed_stage.hpp"

namespace lockstep::bench {

/// Each stage (rank) has a main queue with its steps, named F3, B3, I3, W3, and its waiting, and a queue per direction
/// ("down", "up") with what it sends. The run was traced.
Trace named_trace(const week24::TimedRun& run, const PipelineShape& shape);

/// The whole run as it was traced, with the same names for steps: what ./lab why and ./lab diff replay.
Trace replayable_trace(const week24::TimedRun& run, const PipelineShape& shape);

/// Seconds in which at least one message from this stage was on its way, beside the work or not.
double wire_seconds(const Trace& named, int stage);

/// The look of each kind of work and of messages that the trace has.
std::vector<Shade> shades_of(const Trace& named);

}  // namespace lockstep::bench
