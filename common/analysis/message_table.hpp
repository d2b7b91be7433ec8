// Output of --trace for a small run: its messages, step by step, and the part of the run that the drawing omits.
#pragma once

#include <cstddef>
#include <string>

#include "common/runtime/trace/trace.hpp"

namespace lockstep::analysis {

/// Lists the messages of each collective by step: a rank's k-th batch in it is its step k. Columns: time in flight,
/// bytes, ranks and parts. Messages with equal times and sizes share a line. Shows the first `most_lines` lines, and
/// for hundreds of messages only their number. Empty if there are none.
std::string message_table(const Trace& trace, std::size_t most_lines = 32);

/// Returns the trace without its set-up if it begins with collectives called "broadcast", or with a phase called
/// "set-up", and sends more after them; time 0 is when the first rank has ended it. Returns any other trace unchanged.
Trace without_set_up(const Trace& trace);
/// Seconds from the trace's beginning to the end of the set-up; 0 without one.
double set_up_seconds(const Trace& trace);

}  // namespace lockstep::analysis
