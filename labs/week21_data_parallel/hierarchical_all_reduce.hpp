// Exercise 21.4: an all-reduce for nodes of several ranks, whose links inside are faster than those between them.
// Inside the node, across, inside again: over the slow links each rank sends only 1/g of the array.
//
// Ranks are numbered node by node, as launchers do: node i holds ranks i·g … i·g + g − 1. Ranks with the same place in
// their nodes form a *rail*: rank 0 of every node the first, rank 1 of every node the second, …
//
// Symbols: p ranks in k nodes of g ranks, n bytes of the array. See Mikami et al., "Massively distributed SGD" (arXiv
// 1811.05233), whose 2D-torus all-reduce this is, and Cho, Finkler and Kung, "BlueConnect" (SysML 2019), for more
// levels.
#pragma once

#include "common/rank.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"

namespace lockstep::week21 {

/// This rank among the g ranks of its node, and among the k ranks of its rail.
struct Hierarchy {
  Rank node;  ///< the ranks of my node, in their order
  Rank rail;  ///< the ranks with my place in their nodes, in the order of the nodes
};

/// Part a. Collective, at set-up. Throws Error(usage) where `ranks_per_node` < 1 or does not divide me.size().
Hierarchy split_by_node(Rank me, int ranks_per_node);

/// Part b. Sums `data` over all ranks of all nodes, in place; any size and dtype. Built from 21.2's parts:
/// reduce-scatter inside the node, all-reduce of my own chunk on my rail, all-gather inside.
/// 2(g − 1) steps inside and 2(k − 1) across. Sent per rank: 2(g − 1)/g·n inside, 2(k − 1)/k·n/g across. Memory: one
/// scratch as long as the longest chunk.
void hierarchical_all_reduce(Hierarchy groups, Slice data);

/// Part c. Seconds of part b for k nodes of g ranks: `inside` and `across` are the costs of messages in a node and on a
/// rail (21.5). Every rail has ports of its own, or `across` says how they are shared; g divides n, and k divides n/g.
double hierarchical_seconds(CostModel inside, CostModel across, int nodes, int ranks_per_node, double bytes);

/// Bytes that cross the slow links in one all-reduce, in one direction.
struct SlowLinkBytes {
  double per_rank = 0;  ///< sent by the rank that sends most of them
  double per_node = 0;  ///< sent by all ranks of a node together
};
/// Given: for the flat ring over all ranks: one rank of each node has its next neighbour in another one. k ≥ 2.
SlowLinkBytes slow_link_bytes_of_ring(int nodes, int ranks_per_node, double bytes);
/// Part c. For part b's all-reduce.
SlowLinkBytes slow_link_bytes_of_hierarchy(int nodes, int ranks_per_node, double bytes);

}  // namespace lockstep::week21
