// Keeps one rank's ledgers and trace while it runs. Used by the backends whose ranks share a process with nobody else
// touching the same queue: every method is called by the queue it names.
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

/// What a modelled machine asks for an operation, whatever lengthened it, and for one with nothing to do.
struct OperationPrice {
  double own = 0;
  double launch = 0;
  double flop = 0, bytes = 0;  // its work, for the trace
};

class Recorder {
 public:
  /// `machine`: where times are modelled, whose prices messages have. `memory` outlives it.
  Recorder(int rank, bool trace, const Machine* machine,
           std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : rank_(rank), trace_(trace), queues_(memory) {
    if (trace) notes_ = std::make_unique<ProgramNotes>(rank, machine);
  }

  void add_queue(const std::string& name);

  // Memory: main's blocks and each queue's own scratch are counted apart.
  void allocated(int queue, Category category, std::uint64_t bytes);
  void released(int queue, Category category, std::uint64_t bytes);
  std::uint64_t scratch(int queue) const { return queues_[queue].memory.live_total; }  ///< live bytes of a queue's own

  // For traces: which memory there is, and what holds values from the host. Of every block, or of none.
  void block_made(const Block& block, double now);
  bool knows(const Block& block) const { return block.id > 0 && block.id <= blocks_.size(); }
  void block_released(const Block& block, double now) { blocks_[block.id - 1].end = now; }
  void uploaded(const Slice& slice);

  /// Of what the queue's program does now, for the trace; taken when it is done, not when its time is known.
  std::uint64_t position(int queue) { return notes_ ? notes_->next(queue) : 0; }
  /// The last that it has taken; 0 without a trace.
  std::uint64_t reached(int queue) { return notes_ ? notes_->reached(queue) : 0; }
  void note_race(TraceRace race) { races_.push_back(std::move(race)); }
  /// The same as position() for a wait: what is waited for here.
  std::uint64_t waits_for(int queue, const Ticket& ticket) { return notes_ ? notes_->waits_for(queue, ticket) : 0; }
  // Work given to a queue; `now` where the host's clock says more than positions do.
  void closure_issued(int queue, double now = 0) {
    if (notes_) notes_->closure_issued(queue, now);
  }
  void closure_begins(int queue, double now = 0) {
    if (notes_) notes_->closure_begins(queue, now);
  }
  void closure_ends(int queue, double now = 0) {
    if (notes_) notes_->closure_ends(queue, now);
  }

  // Time, on the queue's clock; of arithmetic also its FLOP.
  void busy(int queue, double begin, double end, const char* name, double flop, Location where, std::uint64_t position,
            OperationPrice price = {});
  void touched(const Operation& operation);  ///< by what was busy last, where that is little
  void count_flop(int queue, double flop) { queues_[queue].flop += flop; }  ///< where their time is known only later
  void waited(int queue, double begin, double end, Location where, std::uint64_t position);
  /// Of each (group, queue) in the order started.
  void transferred(int queue, int group, double begin, double end, std::span<const Transfer> batch, Location where,
                   const char* region);
  void transferred(int queue, int group, double begin, double end, std::size_t transfers, std::uint64_t bytes,
                   Location where, const char* region);

  // Regions: the innermost of a queue names what it starts.
  void open_region(int queue, const char* name, std::size_t bytes, double now, Location where);
  void close_region(int queue, double now);
  bool in_collective(int queue) const { return queues_[static_cast<std::size_t>(queue)].collective != nullptr; }
  /// The same where the clock can be read only later: closes it, and returns what names it to region_lasted.
  int leave_region(int queue);
  void region_lasted(int queue, int region, double begin, double end);
  const char* collective(int queue) const {
    return queues_[queue].collective;
  }  ///< innermost that is no phase, or null
  /// The regions of a batch that `where` has started in `collective`, from the innermost, for people: " in region
  /// "ring_all_reduce" in region "bucket 1 of 2", opened at ddp.cpp:22 (average)". A place is named where its file is
  /// not that of the one before. The collective alone where the queue is elsewhere by now.
  std::string regions_of(int queue, const char* collective, Location where) const;
  /// Counts a batch on the group of these members (ranks in the world), and returns collective(queue).
  const char* batch_started(int queue, int group, std::span<const int> members, std::span<const Transfer> batch);
  void read() { ++reads_; }

  /// All but `peers`, `traffic` and `seconds`, which the backend adds.
  RankLedger ledger() const;
  /// Events and closures, without names of queues. Once, at the end.
  Trace take_trace();
  bool tracing() const { return trace_; }
  /// Brings what the next message on this queue needs into the cache.
  void fetch(int queue) const { __builtin_prefetch(&queues_[static_cast<std::size_t>(queue)], /*write=*/1); }

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
  struct alignas(64) PerQueue {  // what every message needs first, in one line of the cache
    double transferring_until = 0;
    double busy = 0, waiting = 0, transferring = 0, end = 0;  // as in QueueTime
    std::uint64_t batches = 0;
    const char* collective = nullptr;
    int innermost = -1;  // of the open regions: index in totals
    double flop = 0;
    Usage memory;
    std::vector<RegionTotal> totals;
    std::vector<const char*> names;  // of totals; of collectives, literals: a phase's may be gone after it
    std::vector<Open> open;
    std::string name;
  };
  void find_innermost(PerQueue& queue);

  int rank_;
  bool trace_;
  std::unique_ptr<ProgramNotes> notes_;  // with a trace
  std::uint64_t reads_ = 0;
  std::pmr::vector<PerQueue> queues_;
  std::vector<TraceEvent> events_;
  std::vector<TraceBlock> blocks_;
  std::vector<TraceRace> races_;
};

}  // namespace lockstep
