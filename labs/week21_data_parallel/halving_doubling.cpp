// Exercise 21.3: recursive doubling and Rabenseifner's algorithm. Read labs/week21_data_parallel/halving_doubling.hpp
// first.
//
// part_after(data, r, s) is given: it follows the bits of r through s halvings, so no index has to be computed.
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
  todo("21.3a",
       "lg b steps, at distances 1, 2, 4, … In each, exchange the whole array with the rank whose number differs "
       "from yours in that one bit (r ^ distance), and add what you receive");
}

void fold(Rank me, Slice data) {
  const int p = me.size(), b = butterfly_ranks(p), r = me.rank();
  todo("21.3b",
       "the array of every spare rank (r ≥ b) is added to that of its partner, rank r − b. All other ranks do "
       "nothing");
}

void unfold(Rank me, Slice data) {
  const int p = me.size(), b = butterfly_ranks(p), r = me.rank();
  todo("21.3b", "every spare rank has its partner's array");
}

void halving_reduce_scatter(Rank me, Slice data) {
  const int r = me.rank(), steps = steps_of(me);
  if (steps == 0) return;
  Slice scratch = me.allocate(chunk(data, 0, 2).size(), data.dtype(), Category::buffer);  // the longer half
  todo("21.3c",
       "after lg b steps your part is the sum over all b ranks. In step s = 0, 1, … your partner's number differs "
       "from yours in bit s (r ^ (1 << s)), and part_after(data, …, s + 1) says which half of what you share each of "
       "you keeps");
}

void doubling_all_gather(Rank me, Slice data) {
  const int r = me.rank(), steps = steps_of(me);
  todo("21.3d",
       "the steps of the halving backwards. In each, send the part that you have complete and receive your partner's "
       "in place");
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
