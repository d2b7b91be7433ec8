// Groups and queues: which ranks and queue a Rank stands for, and closures concurrent with main.
#include "common/backends/tests/support.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

TEST(Groups, SplitByColourAndKey) {
  NEED_RANKS(4);
  const Outcome outcome = run_on(4, [](Rank me) {
    Rank pair = me.split(me.rank() % 2, -me.rank());  // the higher rank comes first
    Slice mine = filled(me, 1, static_cast<float>(me.rank())), theirs = empty_of(me, 1);
    pair.exchange({send(1 - pair.rank(), mine), receive(1 - pair.rank(), theirs)});
    Rank again = me.split(me.rank() % 2, -me.rank());
    Rank none = me.split(me.rank() == 0 ? 3 : -1, 0);
    return Values{static_cast<double>(pair.rank()), static_cast<double>(pair.size()), first(me, theirs),
                  static_cast<double>(again.group() == pair.group()), static_cast<double>(none.size())};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], (Values{1, 2, 2, 1, 1}));
  EXPECT_EQ(outcome.values[1], (Values{1, 2, 3, 1, 0}));
  EXPECT_EQ(outcome.values[2], (Values{0, 2, 0, 1, 0}));
  EXPECT_EQ(outcome.values[3], (Values{0, 2, 1, 1, 0}));
}

TEST(Groups, Nest) {
  NEED_RANKS(8);
  const Outcome outcome = run_on(8, [](Rank me) {
    Rank half = me.split(me.rank() / 4, me.rank());
    Rank quarter = half.split(half.rank() / 2, half.rank());
    Rank across = me.split(me.rank() % 4, me.rank());
    Slice mine = filled(me, 1, static_cast<float>(me.rank())), a = empty_of(me, 1), b = empty_of(me, 1);
    quarter.exchange({send(1 - quarter.rank(), mine), receive(1 - quarter.rank(), a)});
    across.exchange({send(1 - across.rank(), mine), receive(1 - across.rank(), b)});
    return Values{first(me, a), first(me, b), static_cast<double>(quarter.world_rank())};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (int r = 0; r < 8; ++r) EXPECT_EQ(outcome.values[r], (Values{double(r ^ 1), double(r ^ 4), double(r)}));
}

TEST(Groups, OfOneJustWork) {
  const Outcome outcome = run_on(1, [](Rank me) {
    Rank self = me.split(0, 0).stream("comm");
    Slice x = filled(me, 2, 3);
    Ticket ticket = me.run(self, [x](Rank r) {
      r.exchange({});
      add(r, x, x);
    });
    me.wait(ticket);
    return Values{static_cast<double>(self.size()), first(me, x)};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], (Values{1, 6}));
}

TEST(Queues, AreSharedByGroupsAndDoNotMixMessages) {
  NEED_RANKS(2);
  const Outcome outcome = run_on(2, [](Rank me) {
    Rank both = me.split(0, me.rank());
    Rank comm = me.stream("comm"), same = both.stream("comm"), other = me.stream("other");
    const int peer = 1 - me.rank();
    Slice a = filled(me, 1, 10 + static_cast<float>(me.rank())), b = filled(me, 1, 20 + static_cast<float>(me.rank()));
    Slice from_comm = empty_of(me, 1), from_main = empty_of(me, 1);
    // Main sends b before a is sent on the other queue; they must not be confused.
    Ticket on_main = me.start({send(peer, b), receive(peer, from_main)});
    Ticket closure = me.run(comm, [=](Rank r) { r.exchange({receive(peer, from_comm), send(peer, a)}); });
    me.wait(closure);
    me.wait(on_main);
    return Values{static_cast<double>(comm.queue() == same.queue()), static_cast<double>(comm.queue() != other.queue()),
                  first(me, from_comm), first(me, from_main)};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], (Values{1, 1, 11, 21}));
  EXPECT_EQ(outcome.values[1], (Values{1, 1, 10, 20}));
}

TEST(Queues, RunClosuresInOrderBesideMain) {
  NEED_RANKS(4);
  const Outcome outcome = run_on(4, [](Rank me) {
    Rank comm = me.stream("comm");
    Slice total = filled(me, 64, static_cast<float>(me.rank())), work = filled(me, 64, 1);
    Ticket last;
    for (int step = 0; step < 3; ++step)  // after three steps each holds the sum over all
      last = me.run(comm, [total](Rank r) {
        // Passes my part round the ring and adds: total' = total + previous total.
        Slice in = r.allocate(total.size(), DType::f32, kBuffer), out = r.allocate(total.size(), DType::f32, kBuffer);
        copy(r, out, total);
        r.exchange({send(next(r), out), receive(previous(r), in)});
        add(r, total, in);
      });
    for (int i = 0; i < 5; ++i) add(me, work, work);
    me.wait(last);
    return Values{first(me, total), first(me, work)};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  // Binomial weights of (1 + shift)³ over the ring 0, 1, 2, 3.
  for (int r = 0; r < 4; ++r) {
    const double sum = r + 3 * ((r + 3) % 4) + 3 * ((r + 2) % 4) + (r + 1) % 4;
    EXPECT_EQ(outcome.values[r], (Values{sum, 32}));
  }
}

TEST(Queues, TwoBesideMain) {
  NEED_RANKS(4);
  const Outcome outcome = run_on(4, [](Rank me) {
    Rank forward = me.stream("forward"), backward = me.stream("backward");
    Slice up = empty_of(me, 8), down = empty_of(me, 8), mine = filled(me, 8, static_cast<float>(me.rank()));
    Ticket a, b;
    for (int i = 0; i < 20; ++i) {
      a = me.run(forward, [=](Rank r) { r.exchange({send(next(r), mine), receive(previous(r), up)}); });
      b = me.run(backward, [=](Rank r) { r.exchange({send(previous(r), mine), receive(next(r), down)}); });
    }
    me.wait(b);
    me.wait(a);
    return Values{first(me, up), first(me, down)};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (int r = 0; r < 4; ++r) EXPECT_EQ(outcome.values[r], (Values{double((r + 3) % 4), double((r + 1) % 4)}));
}

}  // namespace
}  // namespace lockstep
