// What happened when: one timeline a queue. Written as Chrome/Perfetto trace JSON, SVG Gantt chart or terminal text.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep {

/// One message of a batch of transfers.
struct TraceMessage {
  int peer = 0;  // in the world
  bool sends = false;
  std::uint64_t bytes = 0;
  double latency = 0;  // seconds, α of its path, and its whole price α + β·bytes with every port free: of a modelled
  double seconds = 0;  // machine; 0 where messages are measured
};

/// What happened, and where in its program. Each queue of each rank counts from 1 what its program does: operations,
/// batches started, waits, closures given away. From these positions common/analysis replays a run.
struct TraceEvent {
  enum class Kind : unsigned char { compute, wait, transfer, region };
  Kind kind = Kind::compute;
  int rank = 0;
  int queue = 0;
  std::string name;   // operation, region, or "send 4 KiB to 3"
  std::string where;  // file:line
  double begin = 0;   // seconds
  double end = 0;
  std::uint64_t first = 0;             // position; of a region: where it opens; of transfers: where they were started
  std::uint64_t last = 0;              // of a region: its last position (before `first`: empty); of transfers: where
                                       // they were first waited for (0: never); else as `first`. 0 both: not recorded
  double own = 0;                      // compute: modelled seconds by itself; 0: it lasted as long as it took
  double launch = 0;                   // compute: of these, what it would cost with nothing to do
  bool phase = false;                  // region: a phase of the program and no collective
  std::uint32_t group = 0;             // transfer: alike on all members of its group
  std::vector<TraceMessage> messages;  // transfer
};

/// Work that main gave to another queue.
struct TraceClosure {
  int rank = 0;
  int queue = 0;             // that runs it
  std::uint64_t issued = 0;  // main's position
  std::uint64_t first = 0;   // the queue's positions in it; before `first`: none
  std::uint64_t last = 0;
  std::uint64_t waited = 0;  // main's position; 0: never
  double given = 0;          // seconds: when main gave it, and when it began and ended; 0 where that takes no time of
  double begin = 0;          // its own (virtual clocks, GPUs' streams)
  double end = 0;
};

struct Trace {
  std::vector<std::string> queues;  // names by index
  std::vector<TraceEvent> events;
  std::vector<TraceClosure> closures;  // of each (rank, queue) in their order
  bool modelled = false;               // times are a machine's prices, in virtual time or slept through
  std::uint64_t eager_bytes = 0;       // of that machine: larger sends wait for their receive
};

/// Adds a rank's events and closures.
void append(Trace& trace, Trace&& of_rank);

/// One process a rank and one thread a queue; transfers get a thread of their own beside each queue, since they overlap
/// its work. Opens in ui.perfetto.dev.
void write_chrome_trace(const Trace& trace, std::ostream& out);
/// One row a queue; arithmetic, waiting and transfers differ in pattern and text as well as colour.
void write_gantt_svg(const Trace& trace, std::ostream& out, const std::string& title);
/// `columns` characters wide; letters, not colours, carry the meaning.
void write_gantt_text(const Trace& trace, std::ostream& out, int columns);
/// To a file, whole or not at all: the chart where `path` ends with .svg, else what ui.perfetto.dev opens. Throws
/// Error(usage) as write_atomically() of common/support/json/results.hpp.
void write_trace(const Trace& trace, const std::string& path, const std::string& title);

}  // namespace lockstep
