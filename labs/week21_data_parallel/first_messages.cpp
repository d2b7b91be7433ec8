// Exercise 21.0: first messages. Read labs/week21_data_parallel/first_messages.hpp first; try ./lab check 21.0
#include "labs/week21_data_parallel/first_messages.hpp"

#include <vector>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

void ring_of_hellos(Rank me, Slice mine, Slice theirs) {
  const int p = me.size();
  if (p == 1) return copy(me, theirs, mine);  // a ring of one: the previous rank is myself
  todo("21.0a", "one exchange: send `mine` to the next rank and receive `theirs` from the previous one");
}

void broadcast(Rank me, Slice data, int root) {
  todo("21.0b",
       "the root sends `data` to every other rank, in one batch (a std::vector<Transfer>); the others receive it");
}

void barrier(Rank me) {
  const int p = me.size();
  // The contents do not matter: that a message has arrived is the news.
  Slice token = me.allocate(1, DType::f32, Category::buffer), heard = me.allocate(1, DType::f32, Category::buffer);
  todo("21.0c",
       "rounds of one exchange each, until every rank has heard, directly or through others, from every rank. A "
       "whole ring takes p − 1 rounds; can you do it in fewer?");
}

int partner_of(Rank me) {
  const int partner = me.rank() ^ 1;  // flips the last bit: 0 ↔ 1, 2 ↔ 3, …
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
  todo("21.0d", "the two lines of swap_that_deadlocks, fixed. Read the simulator's explanation first");
}

}  // namespace lockstep::week21
