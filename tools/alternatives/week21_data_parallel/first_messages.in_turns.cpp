// 21.0 with one transfer at a time: who sends first and who receives first is agreed beforehand. The broadcast is
// passed round a circle, the barrier counts on rank 0.
#include "labs/week21_data_parallel/first_messages.hpp"

#include "common/arithmetic.hpp"

namespace lockstep::week21 {
namespace {

/// Sends to one rank and receives from another; of two neighbours one begins with each.
void pass_on(Rank me, bool sends_first, const Transfer& out, const Transfer& in) {
  me.exchange({sends_first ? out : in});
  me.exchange({sends_first ? in : out});
}

}  // namespace

void ring_of_hellos(Rank me, Slice mine, Slice theirs) {
  const int p = me.size(), r = me.rank();
  if (p == 1) return copy(me, theirs, mine);
  pass_on(me, r % 2 == 0, send(r + 1 < p ? r + 1 : 0, mine), receive(r > 0 ? r - 1 : p - 1, theirs));
}

void broadcast(Rank me, Slice data, int root) {
  const int p = me.size(), behind_root = (me.rank() - root + p) % p;
  if (behind_root > 0) me.exchange({receive((me.rank() + p - 1) % p, data)});
  if (behind_root + 1 < p) me.exchange({send((me.rank() + 1) % p, data)});
}

void barrier(Rank me) {
  Slice token = me.allocate(1, DType::f32, Category::buffer);
  fill(me, token, 0);
  if (me.rank() > 0) {
    me.exchange({send(0, token)});
    return me.exchange({receive(0, token)});
  }
  for (int peer = me.size() - 1; peer > 0; --peer) me.exchange({receive(peer, token)});
  for (int peer = 1; peer < me.size(); ++peer) me.exchange({send(peer, token)});
}

int partner_of(Rank me) {
  const int partner = me.rank() % 2 == 0 ? me.rank() + 1 : me.rank() - 1;
  return partner < me.size() ? partner : me.rank();
}

void swap_that_deadlocks(Rank me, Slice mine, Slice theirs) {
  const int partner = partner_of(me);
  if (partner == me.rank()) return copy(me, theirs, mine);
  me.exchange({send(partner, mine)});
  me.exchange({receive(partner, theirs)});
}

void swap_with_partner(Rank me, Slice mine, Slice theirs) {
  const int partner = partner_of(me);
  if (partner == me.rank()) return copy(me, theirs, mine);
  pass_on(me, me.rank() < partner, send(partner, mine), receive(partner, theirs));
}

}  // namespace lockstep::week21
