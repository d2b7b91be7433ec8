// What these collectives cost: rounds of messages, each priced by the links that its messages cross and the ports that
// they share. Exact in virtual time for messages above eager_bytes between ranks of one level of links, and on whole
// nodes whose ranks have a network port each but for `direct`. There its price is a lower bound: ports also wait for
// each other. Where ranks share a port those of `pairwise` and `star` are upper ones: steps run into each other, and
// what stays in the node goes beside what leaves it.
#pragma once

#include <memory>
#include <vector>

#include "bench/support/links.hpp"
#include "common/runtime/machine/machine.hpp"

namespace lockstep::bench {

struct CollectivePrices {
  LinkPrices links;
  std::shared_ptr<const Machine> machine = {};  // none where α and β are measured, or are in tables
};

struct Hop {
  int from, to;
};

/// Seconds until the last of these messages has arrived, all begun at once: the largest α, and what the busiest port
/// carries.
double round_seconds(const CollectivePrices& prices, const std::vector<Hop>& round, double bytes, bool one_way = false);

/// p − 1 steps that pass on a chunk, and for the reduce-scatter add it.
double ring_reduce_scatter_seconds(const CollectivePrices& prices, int ranks, double bytes);
double ring_all_gather_seconds(const CollectivePrices& prices, int ranks, double bytes);

/// p − 1 arrays leave rank 0 one after the other; the last one still has to travel.
double star_seconds(const CollectivePrices& prices, int ranks, double bytes);
/// ⌈lg p⌉ messages of the whole array one after the other; a rank sends its next as soon as its port is free.
double tree_seconds(const CollectivePrices& prices, int ranks, double bytes);
/// The first segment crosses p − 1 links; then each takes the slowest step more.
double chain_seconds(const CollectivePrices& prices, int ranks, double bytes, int segments);

/// Of 1, 2, 4, … the number of segments for which chain_seconds is least; they stay above the machine's eager_bytes,
/// or 4 KiB.
int best_segments(const CollectivePrices& prices, int ranks, double bytes);

/// α once, and p − 1 chunks through each port, or the copy of a rank's own chunk where that takes longer.
double direct_seconds(const CollectivePrices& prices, int ranks, double bytes);
/// p − 1 rounds of a chunk each.
double pairwise_seconds(const CollectivePrices& prices, int ranks, double bytes);

}  // namespace lockstep::bench
