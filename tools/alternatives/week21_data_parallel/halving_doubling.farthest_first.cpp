// 21.3a from the farthest partner to the nearest; c with the sum made in the scratch and copied back.
#include "labs/week21_data_parallel/halving_doubling.hpp"

#include <bit>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {
namespace {
/// lg b.
int steps_of(Rank me) { return std::countr_zero(static_cast<unsigned>(butterfly_ranks(me.size()))); }
}  // namespace

int butterfly_ranks(int ranks) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))); }

Slice part_after(Slice data, int rank, int halvings) {
  for (int i = 0; i < halvings; ++i) data = chunk(data, (rank >> i) & 1, 2);
  return data;
}

void recursive_doubling(Rank me, Slice data) {
  const int b = butterfly_ranks(me.size()), r = me.rank();
  if (b == 1) return;  // nobody to add
  Slice received = me.allocate(data.size(), data.dtype(), Category::buffer);
  for (int distance = b / 2; distance > 0; distance /= 2) {
    const int partner = r ^ distance;
    me.exchange({send(partner, data), receive(partner, received)});
    add(me, data, received);  // now the sum of b/distance ranks
  }
}

void fold(Rank me, Slice data) {
  const int p = me.size(), b = butterfly_ranks(p), r = me.rank();
  if (r >= b) me.exchange({send(r - b, data)});
  if (r + b >= p) return;
  Slice received = me.allocate(data.size(), data.dtype(), Category::buffer);
  me.exchange({receive(r + b, received)});
  add(me, data, received);
}

void unfold(Rank me, Slice data) {
  const int p = me.size(), b = butterfly_ranks(p), r = me.rank();
  if (r >= b) me.exchange({receive(r - b, data)});
  if (r + b < p) me.exchange({send(r + b, data)});
}

void halving_reduce_scatter(Rank me, Slice data) {
  const int r = me.rank(), steps = steps_of(me);
  if (steps == 0) return;
  Slice scratch = me.allocate(chunk(data, 0, 2).size(), data.dtype(), Category::buffer);  // the longer half
  for (int step = 0; step < steps; ++step) {
    const int partner = r ^ (1 << step);
    Slice mine = part_after(data, r, step + 1), theirs = part_after(data, partner, step + 1);
    Slice received = scratch.cut(0, mine.size());
    me.exchange({send(partner, theirs), receive(partner, received)});
    add(me, received, mine);
    copy(me, mine, received);  // my part is now the sum of 2^(step + 1) ranks
  }
}

void doubling_all_gather(Rank me, Slice data) {
  const int r = me.rank(), steps = steps_of(me);
  for (int step = steps - 1; step >= 0; --step) {
    const int partner = r ^ (1 << step);
    Slice mine = part_after(data, r, step + 1), theirs = part_after(data, partner, step + 1);
    me.exchange({send(partner, mine), receive(partner, theirs)});  // now the part after `step` halvings is complete
  }
}

void recursive_doubling_all_reduce(Rank me, Slice data) {
  Scope scope = me.region("recursive_doubling_all_reduce", data.bytes());
  fold(me, data);
  if (me.rank() < butterfly_ranks(me.size())) recursive_doubling(me, data);
  unfold(me, data);
}

void rabenseifner_all_reduce(Rank me, Slice data) {
  Scope scope = me.region("rabenseifner_all_reduce", data.bytes());
  fold(me, data);
  if (me.rank() < butterfly_ranks(me.size())) {
    halving_reduce_scatter(me, data);
    doubling_all_gather(me, data);
  }
  unfold(me, data);
}

}  // namespace lockstep::week21
