// Keeps one rank's ledgers and trace while it runs. Used by the backends whose ranks share a process with nobody else
// touching the same queue: every method is called by the queue it names.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "common/ledger/ledger.hpp"
#include "common/rank.hpp"
#include "common/trace/trace.hpp"

namespace lockstep {

class Recorder {
 public:
  explicit Recorder(int rank, bool trace) : rank_(rank), trace_(trace) {}

  void add_queue(const std::string& name);
  void rename_queue(int queue, const std::string& name) { queues_[queue].time.queue = name; }
  bool has_queue(int queue) const { return static_cast<std::size_t>(queue) < queues_.size(); }

  // Memory: main's blocks and each queue's own scratch are counted apart.
  void allocated(int queue, Category category, std::uint64_t bytes);
  void released(int queue, Category category, std::uint64_t bytes);
  std::uint64_t scratch(int queue) const { return queues_[queue].memory.live_total; }  ///< live bytes of a queue's own

  // Time, on the queue's clock; of arithmetic also its FLOP.
  void busy(int queue, double begin, double end, const char* name, double flop, Location where);
  void count_flop(int queue, double flop) { queues_[queue].flop += flop; }  ///< where their time is known only later
  void waited(int queue, double begin, double end, Location where);
  void transferred(int queue, double begin, double end, std::span<const Transfer> batch, Location where,
                   const char* region);
  void transferred(int queue, double begin, double end, std::size_t transfers, std::uint64_t bytes, Location where,
                   const char* region);

  // Regions: the innermost of a queue names what it starts.
  void open_region(int queue, const char* name, std::size_t bytes, double now);
  void close_region(int queue, double now);
  /// The same where the clock can be read only later: closes it, and returns what names it to region_lasted.
  int leave_region(int queue);
  void region_lasted(int queue, int region, double begin, double end);
  const char* collective(int queue) const {
    return queues_[queue].collective;
  }  ///< innermost that is no phase, or null
  /// Counts a batch, and returns collective(queue).
  const char* batch_started(int queue, std::span<const Transfer> batch);
  void read() { ++reads_; }

  /// All but `peers`, `traffic` and `seconds`, which the backend adds.
  RankLedger ledger() const;
  std::vector<TraceEvent>& trace() { return events_; }
  bool tracing() const { return trace_; }

 private:
  struct Usage {
    std::array<std::uint64_t, kCategories> live{}, peak{};
    std::uint64_t live_total = 0, peak_total = 0;
  };
  struct Open {
    int total;  // index in totals
    double begin;
  };
  struct PerQueue {
    RegionTotal* innermost = nullptr;  // of the open regions
    const char* collective = nullptr;
    std::uint64_t batches = 0;
    double flop = 0;
    double transferring_until = 0;
    QueueTime time;
    Usage memory;
    std::deque<RegionTotal> totals;
    std::vector<const char*> names;  // of totals: literals, compared as pointers first
    std::vector<Open> open;
  };
  void find_innermost(PerQueue& queue);

  int rank_;
  bool trace_;
  std::uint64_t reads_ = 0;
  std::deque<PerQueue> queues_;  // `innermost` points into one: they stay where they are
  std::vector<TraceEvent> events_;
};

}  // namespace lockstep
