// 21.0 with trees: the broadcast doubles the ranks that have the array in each round, the barrier goes up such a tree
// and down again. Batches are started, and waited for later.
#include "labs/week21_data_parallel/first_messages.hpp"

#include <vector>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {
namespace {

/// Rank me's place where `root` has place 0, and back.
int place_of(Rank me, int root) { return (me.rank() - root + me.size()) % me.size(); }
int rank_at(Rank me, int root, int place) { return (place + root) % me.size(); }

/// The largest power of two that is not above `place` ≥ 1: who is that much nearer to the root is the parent.
int highest_bit(int place) {
  int bit = 1;
  while (2 * bit <= place) bit *= 2;
  return bit;
}

std::vector<int> children_of(Rank me, int root) {
  const int place = place_of(me, root);
  std::vector<int> children;
  for (int bit = place == 0 ? 1 : 2 * highest_bit(place); place + bit < me.size(); bit *= 2)
    children.push_back(rank_at(me, root, place + bit));
  return children;
}

void down_the_tree(Rank me, const Slice& data, int root) {
  const int place = place_of(me, root);
  if (place > 0) me.exchange({receive(rank_at(me, root, place - highest_bit(place)), data)});
  Ticket last;
  for (int child : children_of(me, root)) last = me.start({send(child, data)});
  me.wait(last);
}

}  // namespace

void ring_of_hellos(Rank me, Slice mine, Slice theirs) {
  if (me.size() == 1) {
    copy(me, theirs, mine);
    return;
  }
  std::vector<Transfer> hello;
  for (int peer = 0; peer < me.size(); ++peer) {
    if ((peer + 1) % me.size() == me.rank()) hello.push_back(receive(peer, theirs));
    if (peer == (me.rank() + 1) % me.size()) hello.push_back(send(peer, mine));
  }
  me.wait(me.start(hello));
}

void broadcast(Rank me, Slice data, int root) { down_the_tree(me, data, root); }

void barrier(Rank me) {
  Slice token = me.allocate(1, DType::f32, Category::buffer);
  fill(me, token, 1);
  std::vector<int> children = children_of(me, 0);
  for (; !children.empty(); children.pop_back()) me.exchange({receive(children.back(), token)});
  if (me.rank() > 0) me.exchange({send(me.rank() - highest_bit(me.rank()), token)});
  down_the_tree(me, token, 0);
}

int partner_of(Rank me) {
  const int partner = me.rank() ^ 1;
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
  me.wait(me.start({receive(partner, theirs), send(partner, mine)}));
}

}  // namespace lockstep::week21
