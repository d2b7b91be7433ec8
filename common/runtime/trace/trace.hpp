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
  double seconds = 0;        // machine; 0 where messages are measured
  std::uint64_t block = 0;   // which of this rank's allocations it reads or writes, from 1; 0: not known
  std::uint64_t offset = 0;  // bytes from that allocation's beginning
};

/// Memory of its rank that an operation reads, or writes (and may read).
struct TraceUse {
  std::uint64_t block = 0;
  std::uint64_t offset = 0;  // bytes
  std::uint64_t bytes = 0;
  bool writes = false;
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
  double flop = 0, moved = 0;          // compute, on a GPU: its work; bytes read and written, each element once
  bool phase = false;                  // region: a phase of the program and no collective
  bool cut = false;                    // region: the run stopped in it
  std::uint32_t group = 0;             // transfer: alike on all members of its group
  std::vector<TraceMessage> messages;  // transfer
  std::uint64_t bytes = 0;             // region: of the whole array, as the collective was given it; 0: a phase
  std::vector<TraceUse> uses;          // compute: of operations on small arrays, in the simulator
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

/// An allocation of a rank, of the simulator.
struct TraceBlock {
  int rank = 0;
  std::uint64_t id = 0;  // from 1, in the rank's order
  std::string category;
  std::uint64_t bytes = 0;
  double begin = 0;       // seconds
  double end = -1;        // released; −1: it lived until the end
  bool uploaded = false;  // holds values from the host
};

/// A queue that could not go on when nobody could: see StuckQueue of common/runtime/fibers/deadlock.hpp.
struct TraceStuck {
  int rank = 0;
  int queue = 0;
  int needs_rank = -1;   // whom it waits for
  int needs_queue = -1;  // −1: that rank's program has ended
  int link = -1;         // place in the cycle, or in the chain that ends at a missing partner; −1: not in it
  std::string where;
  std::string reason;
};

/// One of two uses of the same memory that nothing orders: see RaceDetector of common/runtime/race.
struct TraceAccess {
  int queue = 0;
  std::uint64_t position = 0;  // of the operation or the batch in its queue's program; 0: not recorded
  double time = 0;             // seconds, when its queue came to it
  bool writes = false;
  std::string what;   // "add", "a receive started"
  std::string where;  // file:line
};

/// Why a run ended with RACE.
struct TraceRace {
  int rank = 0;
  std::uint64_t block = 0, offset = 0, bytes = 0;  // what both use
  std::string category;
  std::string allocated;  // file:line
  TraceAccess first, second;
};

/// What the ledgers of a rank say at the end, to hold beside what its events add up to.
struct TraceTotals {
  int rank = 0;
  double seconds = 0;         // when main ended
  double busy = 0;            // main
  double waiting = 0;         // main
  double busy_elsewhere = 0;  // other queues
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
};

struct Trace {
  std::vector<std::string> queues;  // names by index
  std::vector<TraceEvent> events;
  std::vector<TraceClosure> closures;  // of each (rank, queue) in their order
  bool modelled = false;               // times are a machine's prices, in virtual time or slept through
  std::uint64_t eager_bytes = 0;       // of that machine: larger sends wait for their receive
  std::vector<TraceBlock> blocks;      // of each rank in its order
  std::vector<TraceStuck> stuck;       // after a deadlock
  std::vector<TraceRace> races;        // after a race: that one
  std::vector<TraceTotals> totals;     // of all ranks, also of those whose events were not recorded
  std::string verdict;                 // how the run ended, where it did not pass, and what was said of it
  std::string message;
  bool stopped = false;  // it did not reach its end
  int failed_rank = -1;  // whose failure that was; −1: nobody's in particular
};

/// Adds a rank's events, closures and blocks.
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
