// All-reduces written out here, so that the labs' solutions are not the reference for the simulator.
#pragma once

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/rank.hpp"

namespace lockstep::simulator_tests {

inline Slice part(const Slice& whole, int parts, int index) { return chunk(whole, index, parts); }

inline void reduce_scatter_ring(Rank me, const Slice& x) {
  const int p = me.size(), r = me.rank();
  Slice scratch = me.allocate(part(x, p, 0).size(), x.dtype(), Category::buffer);
  for (int step = 0; step < p - 1; ++step) {
    Slice mine = part(x, p, (r - step - 1 + 2 * p) % p);
    Slice received = scratch.cut(0, mine.size());
    me.exchange({send((r + 1) % p, part(x, p, (r - step + p) % p)), receive((r + p - 1) % p, received)});
    add(me, mine, received);
  }
}

inline void all_gather_ring(Rank me, const Slice& x) {
  const int p = me.size(), r = me.rank();
  for (int step = 0; step < p - 1; ++step)
    me.exchange({send((r + 1) % p, part(x, p, (r + 1 - step + p) % p)),
                 receive((r + p - 1) % p, part(x, p, (r - step + p) % p))});
}

inline void ring(Rank me, const Slice& x) {
  if (me.size() == 1) return;
  reduce_scatter_ring(me, x);
  all_gather_ring(me, x);
}

inline void naive(Rank me, const Slice& x) {
  if (me.rank() != 0) {
    me.exchange({send(0, x)});
    me.exchange({receive(0, x)});
    return;
  }
  Slice other = me.allocate(x.size(), x.dtype(), Category::buffer);
  for (int peer = 1; peer < me.size(); ++peer) {
    me.exchange({receive(peer, other)});
    add(me, x, other);
  }
  for (int peer = 1; peer < me.size(); ++peer) me.exchange({send(peer, x)});
}

inline void recursive_doubling(Rank me, const Slice& x) {
  Slice other = me.allocate(x.size(), x.dtype(), Category::buffer);
  for (int distance = 1; distance < me.size(); distance *= 2) {
    const int peer = me.rank() ^ distance;
    me.exchange({send(peer, x), receive(peer, other)});
    add(me, x, other);
  }
}

/// Inside the node, then across nodes with one ring per rail, then inside the node again.
inline void hierarchical(Rank me, const Slice& x, int ranks_per_node) {
  Rank node = me.split(me.rank() / ranks_per_node, 0), rail = me.split(me.rank() % ranks_per_node, 0);
  reduce_scatter_ring(node, x);
  ring(rail, part(x, node.size(), (node.rank() + 1) % node.size()));
  all_gather_ring(node, x);
}

}  // namespace lockstep::simulator_tests
