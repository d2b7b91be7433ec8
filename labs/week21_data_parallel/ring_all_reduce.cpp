// Exercise 21.2: the ring all-reduce. Read labs/week21_data_parallel/ring_all_reduce.hpp first.
//
// chunk(data, i, p) (common/chunk.hpp) is given: it splits the array, and takes i modulo p: chunk −1 is chunk p − 1.
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

void ring_reduce_scatter(Rank me, Slice data) {
  const int p = me.size(), r = me.rank();
  if (p == 1) return;  // nobody to add
  const int next = (r + 1) % p, previous = (r + p - 1) % p;
  Slice scratch = me.allocate(chunk(data, 0, p).size(), data.dtype(), Category::buffer);  // the longest chunk
  todo("21.2a",
       "p − 1 steps. In each, send one chunk to the next rank, receive another from the previous rank into the "
       "scratch, and add it to your own. Begin with the chunk for which chunk r is the complete one at the end");
}

void ring_all_gather(Rank me, Slice data) {
  const int p = me.size(), r = me.rank();
  if (p == 1) return;  // nobody to give to
  const int next = (r + 1) % p, previous = (r + p - 1) % p;
  todo("21.2b",
       "p − 1 steps. In each, send one complete chunk to the next rank and receive another into its place from the "
       "previous one. Which chunk can you send first?");
}

void ring_all_reduce(Rank me, Slice data) {
  Scope scope = me.region("ring_all_reduce", data.bytes());
  ring_reduce_scatter(me, data);
  ring_all_gather(me, data);
}

}  // namespace lockstep::week21
