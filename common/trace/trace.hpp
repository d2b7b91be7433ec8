// What happened when: one timeline a queue. Written as Chrome/Perfetto trace JSON, SVG Gantt chart or terminal text.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep {

struct TraceEvent {
  enum class Kind : unsigned char { compute, wait, transfer, region };
  Kind kind = Kind::compute;
  int rank = 0;
  int queue = 0;
  std::string name;   // operation, region, or "send 4 KiB to 3"
  std::string where;  // file:line
  double begin = 0;   // seconds
  double end = 0;
};

struct Trace {
  std::vector<std::string> queues;  // names by index
  std::vector<TraceEvent> events;
};

/// One process a rank and one thread a queue; transfers get a thread of their own beside each queue, since they overlap
/// its work. Opens in ui.perfetto.dev.
void write_chrome_trace(const Trace& trace, std::ostream& out);
/// One row a queue; arithmetic, waiting and transfers differ in pattern and text as well as colour.
void write_gantt_svg(const Trace& trace, std::ostream& out, const std::string& title);
/// `columns` characters wide; letters, not colours, carry the meaning.
void write_gantt_text(const Trace& trace, std::ostream& out, int columns);

}  // namespace lockstep
