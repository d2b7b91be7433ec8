// Programs for the page's virtual cluster, which shows their text.
#include "tools/calculators/playground/cluster_programs.hpp"

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "labs/week21_data_parallel/halving_doubling.hpp"
#include "labs/week21_data_parallel/naive_all_reduce.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::playground {

namespace {

int next(Rank me) { return (me.rank() + 1) % me.size(); }
int previous(Rank me) { return (me.rank() + me.size() - 1) % me.size(); }

void together(Rank me, Slice mine, Slice theirs) { me.exchange({send(next(me), mine), receive(previous(me), theirs)}); }

void send_first(Rank me, Slice mine, Slice theirs) {
  me.exchange({send(next(me), mine)});
  me.exchange({receive(previous(me), theirs)});
}

void rank_0_first(Rank me, Slice mine, Slice theirs) {
  if (me.rank() > 0) me.exchange({receive(previous(me), theirs)});
  me.exchange({send(next(me), mine)});
  if (me.rank() == 0) me.exchange({receive(previous(me), theirs)});
}

void even_first(Rank me, Slice mine, Slice theirs) {
  if (me.rank() % 2 == 0) me.exchange({send(next(me), mine)});
  me.exchange({receive(previous(me), theirs)});
  if (me.rank() % 2 == 1) me.exchange({send(next(me), mine)});
}

void add_early(Rank me, Slice mine, Slice theirs) {
  Ticket moved = me.start({send(next(me), mine), receive(previous(me), theirs)});
  add(me, mine, theirs);
  me.wait(moved);
}

void own_chunk(Rank me, Slice mine, Slice theirs) {
  Slice sent = chunk(mine, me.rank(), me.size());
  Slice received = chunk(theirs, me.rank(), me.size());
  me.exchange({send(next(me), sent), receive(previous(me), received)});
}

void last_rank_leaves(Rank me, Slice mine, Slice theirs) {
  if (me.rank() == me.size() - 1) return;
  me.exchange({send(next(me), mine), receive(previous(me), theirs)});
}

void naive(Rank me, Slice mine, Slice) { week21::naive_all_reduce(me, mine); }

void ring(Rank me, Slice mine, Slice) { week21::ring_all_reduce(me, mine); }

void doubling(Rank me, Slice mine, Slice) { week21::recursive_doubling_all_reduce(me, mine); }

void rabenseifner(Rank me, Slice mine, Slice) { week21::rabenseifner_all_reduce(me, mine); }

}  // namespace

const std::vector<ClusterProgram>& cluster_programs() {
  static const std::vector<ClusterProgram> programs{
      {"together", "send and receive together", together},
      {"send_first", "everybody sends first", send_first},
      {"rank_0_first", "rank 0 sends first", rank_0_first},
      {"even_first", "even ranks send first", even_first},
      {"add_early", "add before it has come", add_early},
      {"own_chunk", "pass on your chunk", own_chunk},
      {"last_rank_leaves", "the last rank stays out", last_rank_leaves},
      {"naive", "all through rank 0 (21.1)", naive, week21::naive_all_reduce_seconds},
      {"ring", "ring all-reduce (21.2)", ring, week21::ring_all_reduce_seconds},
      {"doubling", "recursive doubling (21.3)", doubling, week21::recursive_doubling_seconds},
      {"rabenseifner", "Rabenseifner (21.3)", rabenseifner, week21::rabenseifner_seconds}};
  return programs;
}

}  // namespace lockstep::playground
