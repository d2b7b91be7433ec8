// A pipeline's run as a chart: a line a stage in a terminal, and a trace with a name for each step.
#pragma once

#include <string>

#include "labs/week24_pipeline/scripted_stage.hpp"

namespace lockstep::bench {

/// Of each stage (rank) a main queue with its steps, named F3, B3, I3, W3, and its waiting; and what it sends, by
/// direction, "down" and "up". The run was traced.
Trace named_trace(const week24::TimedRun& run, const PipelineShape& shape);

/// Seconds in which at least one message from this stage was on its way, beside the work or not.
double wire_seconds(const Trace& named, int stage);

/// `columns` characters wide. A step is its word and what fills it, other for each kind of work; below it, what is on
/// its way from this stage, if hops take time.
std::string chart_text(const Trace& named, int columns, bool transfers);

/// A Gantt chart that stands alone; kinds of work differ in pattern as well as colour.
std::string chart_svg(const Trace& named, const std::string& title);

}  // namespace lockstep::bench
