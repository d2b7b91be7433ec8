// Records, for a trace, what a rank's program did and in what order, so that the run can be replayed. It stores only
// positions and dependencies; times come from elsewhere, maybe later.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// FNV-1a hash of the members. Groups with equal members count as one, so all of them compute the same name.
std::uint32_t group_name(std::span<const int> members);

class ProgramNotes {
 public:
  /// `machine`: cost model of the messages; null if time is measured.
  ProgramNotes(int rank, const Machine* machine) : rank_(rank), machine_(machine) {}

  std::uint64_t next(int queue) { return ++at(queue).count; }
  std::uint64_t reached(int queue) { return at(queue).count; }
  std::uint64_t waits_for(int queue, const Ticket& ticket);

  void batch_started(int queue, int group, std::span<const int> members, std::span<const Transfer> batch);
  void transferred(int queue, int group, std::size_t event);  ///< of the oldest batch not yet transferred

  void closure_issued(int queue, double now);
  void closure_begins(int queue, double now);
  void closure_ends(int queue, double now);

  struct Range {
    std::uint64_t first = 0, last = 0;
    TraceRegion region;
  };
  void region_opened(int queue, TraceRegion region) {
    at(queue).open.push_back({.first = at(queue).count + 1, .region = region});
  }
  void region_closed(int queue);
  Range region_lasted(int queue);  ///< range of the oldest closed region whose time was unknown

  /// Adds to transfers what they depend on, and returns the closures, by queue.
  void complete(std::vector<TraceEvent>& events, std::vector<TraceClosure>& closures);

 private:
  struct TransferBatch {
    std::uint64_t first = 0, last = 0;
    std::vector<TraceMessage> messages;
    std::size_t event = static_cast<std::size_t>(-1);
  };
  struct Batches {  // of one (group, queue)
    std::uint32_t group = 0;
    std::vector<TransferBatch> all;
    std::size_t transferred = 0, waited = 0;
  };
  struct Queue {
    std::uint64_t count = 0;
    std::vector<Range> open;
    std::deque<Range> closed;  // regions whose time is not known yet
    std::vector<TraceClosure> closures;
    std::size_t begun = 0, waited = 0;
  };
  Queue& at(int queue);

  int rank_;
  const Machine* machine_;
  std::vector<Queue> queues_;
  std::map<std::pair<int, int>, Batches> batches_;  // by (group, queue)
};

}  // namespace lockstep
