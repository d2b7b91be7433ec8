// 21.1 from the last rank to the first, with a new scratch for each, and the three-operand sum.
#include "labs/week21_data_parallel/naive_all_reduce.hpp"

#include <vector>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {
namespace {

void add_from(Rank me, const Slice& data, int peer) {
  if (peer == 0) return;
  {
    Slice theirs = me.allocate(data.size(), data.dtype(), Category::buffer);
    me.wait(me.start({receive(peer, theirs)}));
    add(me, data, theirs, data);
  }
  add_from(me, data, peer - 1);
}

}  // namespace

void naive_all_reduce(Rank me, Slice data) {
  Scope scope = me.region("naive_all_reduce", data.bytes());
  std::vector<Transfer> last;
  if (me.rank() == 0) {
    add_from(me, data, me.size() - 1);
    for (int peer = me.size() - 1; peer > 0; --peer) last.push_back(send(peer, data));
  } else {
    me.exchange({send(0, data)});
    last.push_back(receive(0, data));
  }
  me.exchange(last);
}

}  // namespace lockstep::week21
