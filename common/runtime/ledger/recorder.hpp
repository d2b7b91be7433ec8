// Keeps one rank's ledgers and trace while it runs: on every backend, and in a dry run. Not thread-safe: where queues
// have threads of their own, callers lock around it (processes::Job::record).
#pragma once

#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/runtime/machine/operation.hpp"
#include "common/runtime/trace/program_notes.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep {

class Recorder {
 public:
  /// `machine`: cost model of the messages if times are modelled, else null. `memory` must outlive the Recorder.
  Recorder(int rank, bool trace, const Machine* machine,
           std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : rank_(rank), trace_(trace), queues_(memory) {
    if (trace) notes_ = std::make_unique<ProgramNotes>(rank, machine);
  }

  void add_queue(const std::string& name);

  // Memory: main's blocks and the scratch of each other queue are counted separately.
  void allocated(int queue, Category category, std::uint64_t bytes);
  void released(int queue, Category category, std::uint64_t bytes);
  std::uint64_t scratch(int queue) const { return queues_[queue].memory.live_total; }  ///< live bytes it allocated

  // For traces: every block of memory (all of them or none), and which hold values from the host.
  void block_made(const Block& block, double now);
  bool knows(const Block& block) const { return block.id > 0 && block.id <= blocks_.size(); }
  void block_released(const Block& block, double now) { blocks_[block.id - 1].end = now; }
  void uploaded(const Slice& slice);

  /// Position, in the queue's program, of what it does now, for the trace. Take it when the program does it, not when
  /// its time is known.
  std::uint64_t position(int queue) { return notes_ ? notes_->next(queue) : 0; }
  /// The last position taken; 0 without a trace.
  std::uint64_t reached(int queue) { return notes_ ? notes_->reached(queue) : 0; }
  void note_race(TraceRace race) { races_.push_back(std::move(race)); }
  /// Like position(), for a wait: also records which ticket is waited for.
  std::uint64_t waits_for(int queue, const Ticket& ticket) { return notes_ ? notes_->waits_for(queue, ticket) : 0; }
  // Work given to a queue. `now` is passed if the host's clock says more than positions do.
  void closure_issued(int queue, double now = 0) {
    if (notes_) notes_->closure_issued(queue, now);
  }
  void closure_begins(int queue, double now = 0) {
    if (notes_) notes_->closure_begins(queue, now);
  }
  void closure_ends(int queue, double now = 0) {
    if (notes_) notes_->closure_ends(queue, now);
  }

  // Time on the queue's clock; for arithmetic also FLOP, and for the trace what else is known.
  void busy(int queue, double begin, double end, const char* name, double flop, Location where, std::uint64_t position,
            TraceCompute work = {});
  std::vector<TraceUse> uses_of(const Operation& operation) const;          ///< for the trace: none if one is large
  void count_flop(int queue, double flop) { queues_[queue].flop += flop; }  ///< if the time is known only later
  void waited(int queue, double begin, double end, Location where, std::uint64_t position);
  /// Records a batch. For each (group, queue), call it in the order in which batches were started.
  void transferred(int queue, int group, double begin, double end, std::span<const Transfer> batch, Location where,
                   const char* region);
  void transferred(int queue, int group, double begin, double end, std::size_t transfers, std::uint64_t bytes,
                   Location where, const char* region);

  // Regions: the innermost region of a queue names what the queue starts.
  void open_region(int queue, const char* name, std::size_t bytes, double now, Location where);
  void close_region(int queue, double now);
  bool in_collective(int queue) const { return queues_[static_cast<std::size_t>(queue)].collective != nullptr; }
  /// Like close_region, if the clock can be read only later: closes the region and returns its index for region_lasted.
  int leave_region(int queue);
  void region_lasted(int queue, int region, double begin, double end);
  const char* collective(int queue) const {
    return queues_[queue].collective;
  }  ///< name of the innermost collective, or null
  /// The regions of a batch that `where` started in `collective`, innermost first, for people: " in region
  /// "ring_all_reduce" in region "bucket 1 of 2", opened at ddp.cpp:22 (average)". A place is named only if its file
  /// differs from that of the place before. Only the collective, if the queue has left it since.
  std::string regions_of(int queue, const char* collective, Location where) const;
  /// Counts a batch on the group with these members (world ranks), and returns collective(queue).
  const char* batch_started(int queue, int group, std::span<const int> members, std::span<const Transfer> batch);
  void read() { ++reads_; }

  /// The ledger except `peers`, `traffic` and `seconds`, which the backend adds.
  RankLedger ledger() const;
  /// Events and closures, without names of queues. Call once, at the end.
  Trace take_trace();
  bool tracing() const { return trace_; }

 private:
  struct Usage {
    std::array<std::uint64_t, kCategories> live{}, peak{};
    std::uint64_t live_total = 0, peak_total = 0;
  };
  struct Open {
    int total;  // index in totals
    double begin;
    Location where;
  };
  struct alignas(64) PerQueue {  // data that every message needs comes first, in one cache line
    double transferring_until = 0;
    double busy = 0, waiting = 0, transferring = 0, end = 0;  // as in QueueTime
    std::uint64_t batches = 0;
    const char* collective = nullptr;
    int innermost = -1;  // innermost open region: index in totals
    double flop = 0;
    Usage memory;
    std::vector<RegionTotal> totals;
    std::vector<const char*> names;  // of totals: literals for collectives; a phase's name may not outlive it
    std::vector<Open> open;
    std::string name;
  };
  void find_innermost(PerQueue& queue);

  int rank_;
  bool trace_;
  std::unique_ptr<ProgramNotes> notes_;  // only with a trace
  std::uint64_t reads_ = 0;
  std::pmr::vector<PerQueue> queues_;
  std::vector<TraceEvent> events_;
  std::vector<TraceBlock> blocks_;
  std::vector<TraceRace> races_;
};

}  // namespace lockstep
