// Costs of these collectives: rounds of messages, each priced by the links that its messages cross and the ports that
// they share. Exact in virtual time for messages above eager_bytes between ranks of one level of links, and on whole
// nodes whose ranks have a network port each, except for `direct`. There its price is a lower bound, because ports also
// wait for each other. If ranks share a port, the prices of `pairwise` and `star` are upper bounds: steps overlap, and
// messages within the node overlap with those that leave it.
#pragma once

#include <memory>
#include <vector>

#include "bench/support/links.hpp"
#include "common/runtime/machine/machine.hpp"

namespace lockstep::bench {

struct CollectivePrices {
  LinkPrices links;
  std::shared_ptr<const Machine> machine = {};  // null if α and β are measured, or are in tables
};

struct Hop {
  int from, to;
  double share = 1;  // of the round's bytes
};

/// Time until the last of these messages has arrived, if all begin at once: the largest α, plus the time of the busiest
/// port. `bytes`: of a message whose share is 1.
double round_seconds(const CollectivePrices& prices, const std::vector<Hop>& round, double bytes, bool one_way = false);

/// p − 1 steps that pass on a chunk and, for the reduce-scatter, add it.
double ring_reduce_scatter_seconds(const CollectivePrices& prices, int ranks, double bytes);
double ring_all_gather_seconds(const CollectivePrices& prices, int ranks, double bytes);

/// p − 1 arrays leave rank 0 one after the other; the last one still has to travel.
double star_seconds(const CollectivePrices& prices, int ranks, double bytes);
/// ⌈lg p⌉ messages of the whole array, one after the other; a rank sends its next as soon as its port is free.
double tree_seconds(const CollectivePrices& prices, int ranks, double bytes);
/// The first segment crosses p − 1 links; every other one adds the time of the slowest step.
double chain_seconds(const CollectivePrices& prices, int ranks, double bytes, int segments);

/// Returns the number of segments, among 1, 2, 4, …, with the smallest chain_seconds; segments stay above the machine's
/// eager_bytes, or 4 KiB.
int best_segments(const CollectivePrices& prices, int ranks, double bytes);

/// α once, plus p − 1 chunks through each port, or the copy of a rank's own chunk if that takes longer.
double direct_seconds(const CollectivePrices& prices, int ranks, double bytes);
/// Lower bound of any all-to-all on this machine: without α, the time of the busiest port. That is each rank's own,
/// which p − 1 chunks leave, or the port of a node, which every chunk crosses that leaves the node.
double all_to_all_floor_seconds(const Machine& machine, int ranks, double bytes);
/// Seconds of one rank's copy within its memory: two accesses, where an addition has three.
double copy_seconds(const CollectivePrices& prices, double bytes);
/// p − 1 rounds of one chunk each.
double pairwise_seconds(const CollectivePrices& prices, int ranks, double bytes);

}  // namespace lockstep::bench
