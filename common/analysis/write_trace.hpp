// Writes a trace: as JSON for viewers and for read_trace.hpp, or as a chart for a terminal.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// Writes one process per rank and one thread per queue. Transfers overlap their queue's work, so each queue has a
/// second thread for them. ./lab view animates it; ui.perfetto.dev opens it, too.
void write_chrome_trace(const Trace& trace, std::ostream& out, const std::string& title = "");
/// The same to a file, atomically. Throws Error(usage) as write_atomically() in common/support/text/files.hpp does.
void write_trace(const Trace& trace, const std::string& path, const std::string& title);
/// `columns` characters wide; letters, not colours, carry the meaning. One line per queue; of a pipeline, whose
/// operations are steps named "F3", one per stage.
void write_gantt_text(const Trace& trace, std::ostream& out, int columns);

}  // namespace lockstep
