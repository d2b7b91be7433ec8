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
  todo("21.4a",
       "two splits, on every rank in the same order. Ranks of one node give the same colour to the first; ranks with "
       "the same place in their nodes give the same colour to the second");
}

void hierarchical_all_reduce(Hierarchy groups, Slice data) {
  Scope scope = groups.node.region("hierarchical_all_reduce", data.bytes());
  todo("21.4b",
       "three calls of 21.2's functions. Inside the node, complete your own chunk of the node's sum; on your rail, "
       "sum that chunk over the nodes; inside the node, gather the chunks");
}

double hierarchical_seconds(CostModel inside, CostModel across, int nodes, int ranks_per_node, double bytes) {
  todo("21.4c", "a ring inside the node for the whole array, and one on the rail for 1/g of it");
}

SlowLinkBytes slow_link_bytes_of_ring(int nodes, int ranks_per_node, double bytes) {
  const double p = nodes * ranks_per_node, sent = 2 * (p - 1) / p * bytes;
  return {sent, sent};
}

SlowLinkBytes slow_link_bytes_of_hierarchy(int nodes, int ranks_per_node, double bytes) {
  todo("21.4c", "all g ranks of a node send across, each on its own rail");
}

}  // namespace lockstep::week21
