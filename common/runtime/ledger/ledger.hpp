// The three ledgers: traffic, memory and time of each rank. Kept by the runtime, read after the run has finished;
// lab code cannot reach them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/slice.hpp"

namespace lockstep {

struct Traffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

/// Traffic with one peer in one group (numbered in the order in which its members made groups; 0 is the world).
struct PeerTraffic {
  int group = 0;
  int peer = 0;  // world rank
  Traffic traffic;
};

/// Sum over all visits to regions of one name on one queue.
struct RegionTotal {
  std::string name;
  int queue = 0;
  std::uint64_t visits = 0;
  std::uint64_t bytes = 0;  // as given to `region`, summed; 0 for phases
  bool phase = false;
  std::uint64_t batches = 0;
  Traffic traffic;     // of batches started inside it and in no region within it
  double seconds = 0;  // spent inside, on its queue's clock
};

/// Memory of one rank in bytes. Peaks are main's peak plus the scratch peaks of its other queues, on every backend.
struct Memory {
  std::array<std::uint64_t, kCategories> live{};  // when the ledger was read; 0 after the program has ended
  std::array<std::uint64_t, kCategories> peak{};
  std::uint64_t peak_total = 0;
  std::uint64_t live_of(Category c) const { return live[static_cast<int>(c)]; }
  std::uint64_t peak_of(Category c) const { return peak[static_cast<int>(c)]; }
};

/// Seconds of one queue of one rank. busy + waiting ≤ end; `transferring` overlaps both.
struct QueueTime {
  std::string queue;
  double busy = 0;          // arithmetic
  double waiting = 0;       // in wait(): for transfers, or for another queue
  double transferring = 0;  // at least one batch started on this queue was in flight
  double end = 0;           // when its last work ended
};

/// All ledgers of one rank.
struct RankLedger {
  Traffic traffic;
  std::uint64_t batches = 0;  // started by this rank: the steps of an algorithm that does one exchange per step
  std::vector<PeerTraffic> peers;
  std::vector<RegionTotal> regions;
  double flop = 0;          // of all arithmetic, as operations count it (a multiply-add is two)
  std::uint64_t reads = 0;  // synchronisations through `read` and `to_host`
  Memory memory;
  std::vector<QueueTime> queues;  // [0] is main
  double seconds = 0;             // when the program ended on main

  const RegionTotal* region(std::string_view name) const;  ///< the first of that name, or null
  std::uint64_t sent_to(int peer) const;                   ///< bytes, over all groups
};

/// Adds the traffic with a peer, if there was any.
void add_traffic(RankLedger& ledger, const PeerTraffic& with);

class Rank;
/// The ledger of `me` so far, for tests and progress lines; labs do not include this file. Call it on main while no
/// closure runs.
RankLedger ledger_of(Rank me);

}  // namespace lockstep
