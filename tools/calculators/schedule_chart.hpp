// A pipeline's run as a trace in which each step has its name, for charts and for replays.
#pragma once

#include <vector>

#include "common/runtime/trace/trace.hpp"
#include "labs/week24_pipeline/timed_stage.hpp"

namespace lockstep::bench {

/// The whole run as it was traced. Main's work is named as the steps: F3, B3, I3, W3.
Trace named_trace(const week24::TimedRun& run, const PipelineShape& shape);

/// Seconds, for each stage, in which at least one of its messages was in flight, overlapping work or not. The run was
/// traced.
std::vector<double> wire_seconds(const week24::TimedRun& run);

}  // namespace lockstep::bench
