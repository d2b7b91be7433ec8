// 21.2 by recursion: each call makes one step of the ring, and its chunk counts from the one that is complete at the
// end.
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

#include "common/arithmetic.hpp"

namespace lockstep::week21 {
namespace {

struct Neighbours {
  int next, previous;
};

Neighbours neighbours(Rank me) {
  const int p = me.size();
  return {me.rank() == p - 1 ? 0 : me.rank() + 1, me.rank() == 0 ? p - 1 : me.rank() - 1};
}

/// Sends the chunk `ahead` places after my own, until that is the next one's after mine: then my own is complete.
void reduce_from(Rank me, const Slice& data, const Slice& scratch, int ahead) {
  if (ahead == 0) return;
  const auto [next, previous] = neighbours(me);
  Slice mine = chunk(data, me.rank() + ahead - 1, me.size()), theirs = scratch.cut(0, mine.size());
  me.exchange({receive(previous, theirs), send(next, chunk(data, me.rank() + ahead, me.size()))});
  add(me, mine, theirs);
  reduce_from(me, data, scratch, ahead - 1);
}

void gather_until(Rank me, const Slice& data, int steps) {
  if (steps == 0) return;
  gather_until(me, data, steps - 1);
  const auto [next, previous] = neighbours(me);
  Slice known = chunk(data, me.rank() - steps + 1, me.size());
  me.exchange({receive(previous, chunk(data, me.rank() - steps, me.size())), send(next, known)});
}

}  // namespace

void ring_reduce_scatter(Rank me, Slice data) {
  Slice scratch = me.allocate(chunk_range(data.size(), 0, me.size()).size, data.dtype(), Category::buffer);
  reduce_from(me, data, scratch, me.size() - 1);
}

void ring_all_gather(Rank me, Slice data) { gather_until(me, data, me.size() - 1); }

void ring_all_reduce(Rank me, Slice data) {
  Scope scope = me.region("ring_all_reduce", data.bytes());
  ring_reduce_scatter(me, data);
  ring_all_gather(me, data);
}

}  // namespace lockstep::week21
