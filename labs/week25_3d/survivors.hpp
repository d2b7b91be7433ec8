// Exercise 25.8: a rank dies, and the others continue. Each rank holds a shard of the training state and, in memory,
// snapshots of its own shard and of its neighbour's. From these, the p − 1 ranks that are left make p − 1 larger shards
// of the same state, and train on without reading a file.
//
// Follows Wang et al., "Gemini: Fast Failure Recovery in Distributed Training with In-Memory Checkpoints", SOSP 2023,
// for copies in the memory of other ranks. Part d's time to a loss is that of mirrored disks: Patterson, Gibson and
// Katz, "A Case for Redundant Arrays of Inexpensive Disks (RAID)", SIGMOD 1988.
#pragma once

#include <vector>

#include "common/chunk.hpp"
#include "common/rank.hpp"

namespace lockstep::week25 {

// a. The step to continue from ----------------------------------------------------------------------------------------

/// Numbers of the steps after which a rank has taken a snapshot that is complete and that it still holds, in any order.
struct Remembered {
  std::vector<int> own;       ///< of its own shard
  std::vector<int> previous;  ///< of the shard of the rank before it: rank 0's is of the last rank
};

/// The newest step of which the living ranks together remember every shard; −1 if there is none. ranks[r] is what rank
/// r remembers, at least one; `dead` are the numbers of those that died, in any order.
int newest_whole(const std::vector<Remembered>& ranks, const std::vector<int>& dead);

// b. Who gives what to whom -------------------------------------------------------------------------------------------

/// Elements [offset, offset + size) of the whole array that member `to` of the new group gets from member `from`, which
/// may be itself.
struct Move {
  std::size_t offset = 0, size = 0;
  int from = 0, to = 0;
  bool previous = false;  ///< from its snapshot of the shard of the rank before it, and not of its own
};

/// Shards of n elements, from p ranks to was.size() ≥ 1 members. Rank r had chunk r of p (chunk_range), and member i
/// gets chunk i of was.size(). was[i] is the rank that member i was before, each at most once, or −1: it joins now,
/// with nothing. The moves are in the order of the array, contain each element once, and are not empty.
///
/// Each comes from the first that is there: a snapshot of member `to` itself, for then nothing is sent; the shard's own
/// rank; the rank after it. If none is, throws Error(Verdict::fail) with a message that names the shard ("shard 3").
std::vector<Move> moves_of(std::size_t n, int p, const std::vector<int>& was);

// c. Snapshots and shards ---------------------------------------------------------------------------------------------

/// One rank's snapshot: a slice for each array of the state, such as the weights, m and v. Both are empty on a rank
/// that joins.
struct Snapshot {
  std::vector<Slice> own, previous;
};

/// Takes a snapshot. shard[a] is this rank's chunk of array a, which has n elements and any type. The snapshot has
/// memory of its own (Category::buffer), so that training continues in `shard`. All messages go in one batch: every
/// rank's shard, once. At least two ranks.
Snapshot snapshot_of(Rank me, std::size_t n, const std::vector<Slice>& shard);

/// Fills shard[a], member group.rank()'s chunk of array a in the new group, with the elements that the snapshots have.
/// `held` is what this member holds, from a group of p ranks; n and `was` as in part b. Everything that is sent goes in
/// one batch, and nothing is sent that the member holds itself.
void reshard(Rank group, std::size_t n, int p, const std::vector<int>& was, const Snapshot& held,
             const std::vector<Slice>& shard);

// d. What it is worth -------------------------------------------------------------------------------------------------

/// Times in seconds.
struct SurvivorCosts {
  int ranks = 2;        ///< p
  double mtbf = 0;      ///< of one rank: mean time between failures. One of the p fails every mtbf/p
  double interval = 0;  ///< of work between two snapshots
  double snapshot = 0;  ///< training stops for each
  double resume = 0;    ///< from a failure until the others train: noticing, agreeing, resharding
  double repair = 0;    ///< from a failure until another rank joins in the dead one's place
  double join = 0;      ///< training stops for resharding when it does
};

/// The share of what p ranks that never fail would train: the share of time that is lasting work (25.5a's, with resume
/// and join together as the restart), times the mean share of ranks that are there. A rank is there for mtbf seconds,
/// and then absent for `repair`.
double goodput(const SurvivorCosts& costs);

/// Mean seconds until a rank dies less than `window` seconds after one of its two neighbours, before the shard of the
/// dead one has been copied again, so that only a checkpoint on disk helps: mtbf²/(2·p·window). For window ≪ mtbf, p
/// ≥ 3.
double time_to_loss(const SurvivorCosts& costs, double window);

}  // namespace lockstep::week25
