// A trace: one timeline per queue. common/analysis writes it, reads it and explains it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace lockstep {

/// One message of a batch of transfers.
struct TraceMessage {
  int peer = 0;  // world rank
  bool sends = false;
  std::uint64_t bytes = 0;
  double latency = 0;        // α of its path, in seconds; 0 if messages are measured
  double seconds = 0;        // α + β·bytes with every port free, in seconds; 0 if messages are measured
  std::uint64_t block = 0;   // this rank's allocation that it reads or writes, from 1; 0: unknown
  std::uint64_t offset = 0;  // bytes from the start of that allocation
};

/// Memory of the event's rank that an operation reads, or writes (and may read).
struct TraceUse {
  std::uint64_t block = 0;
  std::uint64_t offset = 0;  // bytes
  std::uint64_t bytes = 0;
  bool writes = false;
};

/// An operation.
struct TraceCompute {
  double own = 0;              // modelled seconds without slowdowns; 0: measured
  double launch = 0;           // part of `own` that it would cost with nothing to do
  double flop = 0, moved = 0;  // its work; bytes read and written, each element once
  std::vector<TraceUse> uses;  // of operations on small arrays, in the simulator
};

struct TraceWait {};

/// A batch of transfers.
struct TraceTransfer {
  std::uint32_t group = 0;  // the same number on all members of the group
  std::vector<TraceMessage> messages;
};

struct TraceRegion {
  bool phase = false;       // a phase of the program, not a collective
  bool cut = false;         // the run stopped inside it
  std::uint64_t bytes = 0;  // size of the whole array, as passed to the collective; 0: a phase
};

/// An event, and its position in its program. Each queue of each rank numbers from 1 what its program does: operations,
/// batches started, waits, closures launched. common/analysis replays a run from these positions.
struct TraceEvent {
  enum class Kind : unsigned char { compute, wait, transfer, region };
  std::variant<TraceCompute, TraceWait, TraceTransfer, TraceRegion> what;  // in the order of Kind
  int rank = 0;
  int queue = 0;
  std::string name;   // operation, region, or "send 4 KiB to 3"
  std::string where;  // file:line
  double begin = 0;   // seconds
  double end = 0;
  std::uint64_t first = 0;  // position; for a region: where it opens; for transfers: where they were started
  std::uint64_t last = 0;  // region: its last position (before `first`: empty); transfers: where they were first waited
                           // for (0: never); otherwise equal to `first`. 0 for both: not recorded

  Kind kind() const { return static_cast<Kind>(what.index()); }
  // What it is, or null if it is of another kind.
  const TraceCompute* compute() const { return std::get_if<TraceCompute>(&what); }
  const TraceWait* wait() const { return std::get_if<TraceWait>(&what); }
  const TraceTransfer* transfer() const { return std::get_if<TraceTransfer>(&what); }
  const TraceRegion* region() const { return std::get_if<TraceRegion>(&what); }
};

/// Work that main gave to another queue.
struct TraceClosure {
  int rank = 0;
  int queue = 0;             // queue that runs it
  std::uint64_t issued = 0;  // main's position
  std::uint64_t first = 0;   // its first position in the queue; `last` < `first`: none
  std::uint64_t last = 0;
  std::uint64_t waited = 0;  // main's position; 0: never
  double given = 0;          // seconds: when main launched it; 0 if not recorded (virtual clocks, GPU streams)
  double begin = 0;          // when it began, and below when it ended; 0 likewise
  double end = 0;
};

/// An allocation of a rank, in the simulator.
struct TraceBlock {
  int rank = 0;
  std::uint64_t id = 0;  // from 1, in allocation order on its rank
  std::string category;
  std::uint64_t bytes = 0;
  double begin = 0;       // seconds
  double end = -1;        // time of release; −1: never
  bool uploaded = false;  // holds values from the host
};

/// A queue that was blocked when no rank could make progress: see StuckQueue of common/runtime/fibers/deadlock.hpp.
struct TraceStuck {
  int rank = 0;
  int queue = 0;
  int needs_rank = -1;   // rank that it waits for
  int needs_queue = -1;  // −1: that rank's program has ended
  int link = -1;         // index in the cycle, or in the chain that ends at a missing partner; −1: in neither
  std::string where;
  std::string reason;
};

/// One of two unordered uses of the same memory: see RaceDetector of common/runtime/race.
struct TraceAccess {
  int queue = 0;
  std::uint64_t position = 0;  // of the operation or batch in its queue's program; 0: not recorded
  double time = 0;             // seconds, when its queue got there
  bool writes = false;
  std::string what;   // "add", "a receive started"
  std::string where;  // file:line
};

/// Details of a race, for a run that ended with RACE.
struct TraceRace {
  int rank = 0;
  std::uint64_t block = 0, offset = 0, bytes = 0;  // memory that both use
  std::string category;
  std::string allocated;  // file:line
  TraceAccess first, second;
};

/// Totals of a rank's ledgers at the end, to compare with the sums over its events.
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
  std::vector<TraceClosure> closures;  // ordered within each (rank, queue)
  bool modelled = false;               // times come from a cost model, in virtual time or emulated
  std::uint64_t eager_bytes = 0;       // on that machine: larger sends wait for their receive
  std::vector<TraceBlock> blocks;      // ordered within each rank
  std::vector<TraceStuck> stuck;       // after a deadlock
  std::vector<TraceRace> races;        // after a RACE: the race found
  std::vector<TraceTotals> totals;     // of all ranks, including those whose events were not recorded
  std::string verdict;                 // if the run did not pass: its verdict, and below it the explanation
  std::string message;
  bool stopped = false;  // it did not reach its end
  int failed_rank = -1;  // rank that failed; −1: none in particular
  std::string backend;   // as backend_name() says; empty: unknown
  std::string machine;   // of modelled times: the machine file's name; of measured ones, when read: the processor
  std::string title;     // of a trace that was read: what ran, and whose answers, as whose_code() says
  std::string code;
};

/// Adds a rank's events, closures and blocks.
void append(Trace& trace, Trace&& of_rank);

}  // namespace lockstep
