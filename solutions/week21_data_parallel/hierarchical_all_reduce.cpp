// Exercise 21.4: the hierarchical all-reduce. Read labs/week21_data_parallel/hierarchical_all_reduce.hpp first.
#include "labs/week21_data_parallel/hierarchical_all_reduce.hpp"

#include <string>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21 {

Hierarchy split_by_node(Rank me, int ranks_per_node) {
  const int g = ranks_per_node;
  if (g < 1 || me.size() % g != 0)
    throw Error(Verdict::usage, std::to_string(me.size()) + " ranks are no whole number of nodes of " +
                                    std::to_string(g) + ": nodes must be equally large");
  // lab 21.4a begin: the group of this rank's node, and the group of the ranks that have the same place in their nodes.
  // What decides which ranks a split puts together?
  const int node = me.rank() / g, place = me.rank() % g;
  Rank my_node = me.split(node, place);
  Rank my_rail = me.split(place, node);
  return {my_node, my_rail};
  // lab end
}

void hierarchical_all_reduce(Hierarchy groups, Slice data) {
  Scope scope = groups.node.region("hierarchical_all_reduce", data.bytes());
  // lab 21.4b begin: `data` becomes the sum over all ranks, and of its n bytes only n/g go round each rail. 21.2 has
  // three functions
  ring_reduce_scatter(groups.node, data);
  ring_all_reduce(groups.rail, chunk(data, groups.node.rank(), groups.node.size()));
  ring_all_gather(groups.node, data);
  // lab end
}

double hierarchical_seconds(CostModel inside, CostModel across, int nodes, int ranks_per_node, double bytes) {
  // lab 21.4c begin: a ring inside the node for the whole array, and one on the rail for 1/g of it
  return ring_all_reduce_seconds(inside, ranks_per_node, bytes) +
         ring_all_reduce_seconds(across, nodes, bytes / ranks_per_node);
  // lab end
}

SlowLinkBytes slow_link_bytes_of_ring(int nodes, int ranks_per_node, double bytes) {
  const double p = nodes * ranks_per_node, sent = 2 * (p - 1) / p * bytes;
  return {sent, sent};
}

SlowLinkBytes slow_link_bytes_of_hierarchy(int nodes, int ranks_per_node, double bytes) {
  // lab 21.4c begin: all g ranks of a node send across, each on its own rail
  const double k = nodes, sent = 2 * (k - 1) / k * bytes / ranks_per_node;
  return {sent, sent * ranks_per_node};
  // lab end
}

}  // namespace lockstep::week21
