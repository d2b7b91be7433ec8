// What --trace prints of a small run: its messages, step by step, and what of it the drawing leaves out.
#pragma once

#include <cstddef>
#include <string>

#include "common/runtime/trace/trace.hpp"

namespace lockstep::analysis {

/// The messages of each collective by its steps, a rank's k-th batch in it being its step k: from, to, what, bytes, and
/// when they were on their way. Alike ones share a line. Of more than `most_lines` lines the first, of hundreds of
/// messages only how many there are. Empty without messages.
std::string message_table(const Trace& trace, std::size_t most_lines = 32);

/// A run that begins with collectives called "broadcast", or with a phase called "set-up", and sends more after them:
/// from where the first rank goes on, which is 0 then. Any other run as it is.
Trace without_set_up(const Trace& trace);
/// Seconds from the trace's beginning to there; 0 without a set-up.
double set_up_seconds(const Trace& trace);

}  // namespace lockstep::analysis
