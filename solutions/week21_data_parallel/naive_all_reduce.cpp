// Exercise 21.1: the naive all-reduce. Read labs/week21_data_parallel/naive_all_reduce.hpp first.
#include "labs/week21_data_parallel/naive_all_reduce.hpp"

#include <vector>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

void naive_all_reduce(Rank me, Slice data) {
  Scope scope = me.region("naive_all_reduce", data.bytes());
  // lab 21.1 begin: every rank ends with the sum, which rank 0 computes from one array after the other. It has room for
  // one of them beside its own
  if (me.rank() != 0) {
    me.exchange({send(0, data)});
    me.exchange({receive(0, data)});
    return;
  }
  Slice scratch = me.allocate(data.size(), data.dtype(), Category::buffer);
  for (int peer = 1; peer < me.size(); ++peer) {  // p − 1 steps
    me.exchange({receive(peer, scratch)});
    add(me, data, scratch);  // now the sum of ranks 0 … peer
  }
  std::vector<Transfer> sum_to_all;
  for (int peer = 1; peer < me.size(); ++peer) sum_to_all.push_back(send(peer, data));
  me.exchange(sum_to_all);
  // lab end
}

}  // namespace lockstep::week21
