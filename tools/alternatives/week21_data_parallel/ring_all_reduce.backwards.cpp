// 21.2 round the other way: every rank sends to its previous rank and receives from its next one.
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

void ring_reduce_scatter(Rank me, Slice data) {
  const int p = me.size(), r = me.rank();
  if (p == 1) return;  // nobody to add
  const int next = (r + 1) % p, previous = (r + p - 1) % p;
  Slice scratch = me.allocate(chunk(data, 0, p).size(), data.dtype(), Category::buffer);  // the longest chunk
  for (int step = 0; step < p - 1; ++step) {
    Slice outgoing = chunk(data, r + step + 1, p), incoming = chunk(data, r + step + 2, p);
    Slice received = scratch.cut(0, incoming.size());
    me.exchange({send(previous, outgoing), receive(next, received)});
    add(me, incoming, received);  // now the sum of step + 2 ranks
  }
}

void ring_all_gather(Rank me, Slice data) {
  const int p = me.size(), r = me.rank();
  if (p == 1) return;  // nobody to give to
  const int next = (r + 1) % p, previous = (r + p - 1) % p;
  for (int step = 0; step < p - 1; ++step) {
    Slice outgoing = chunk(data, r + step, p), incoming = chunk(data, r + step + 1, p);
    me.exchange({send(previous, outgoing), receive(next, incoming)});  // now step + 2 chunks are complete
  }
}

void ring_all_reduce(Rank me, Slice data) {
  Scope scope = me.region("ring_all_reduce", data.bytes());
  ring_reduce_scatter(me, data);
  ring_all_gather(me, data);
}

}  // namespace lockstep::week21
