// NCCL without envelopes, as in speed runs: closures run at once on main's thread, only the GPU waits, and messages
// that never match are found at the end.
#include "common/backends/tests/support.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

RunOptions speed_options(int ranks) {
  RunOptions options;
  options.ranks = ranks;
  options.check_races = false;
  options.poison = false;
  options.timeout_seconds = 1;
  return options;
}

#define NEED_PROCESSES(p) \
  if (testing::test_options().available_ranks < (p)) GTEST_SKIP() << "needs " << (p) << " ranks"

/// Expects that another run passes after a failure.
void expect_good_run() {
  const Outcome good = run(speed_options(2), Program([](Rank me) {
                             Slice mine = filled(me, 5, me.rank() + 1.f), theirs = filled(me, 5, 0);
                             me.exchange({send(1 - me.rank(), mine), receive(1 - me.rank(), theirs)});
                             return Values{read(me, theirs.cut(4, 1), 0)};
                           }));
  ASSERT_TRUE(good.passed()) << good.message;
  EXPECT_EQ(good.values, (std::vector<Values>{{2}, {1}}));
}

TEST(NcclUnchecked, QueuesOfARankDoNotWaitForEachOther) {
  NEED_PROCESSES(2);
  const Outcome outcome = run(speed_options(2), Program([](Rank me) {
                                Rank comm = me.stream("comm");
                                const int peer = 1 - me.rank();
                                Slice a = filled(me, 1000, 10.f + me.rank()), b = filled(me, 1000, 20.f + me.rank());
                                Slice in_comm = filled(me, 1000, 0), in_main = filled(me, 1000, 0);
                                auto on_comm = [&] {
                                  return me.run(comm, [=](Rank r) {
                                    r.exchange({receive(peer, in_comm), send(peer, a)});
                                    add(r, in_comm, in_comm);
                                  });
                                };
                                auto on_main = [&] { me.exchange({send(peer, b), receive(peer, in_main)}); };
                                Ticket ticket;
                                if (me.rank() == 0) {  // the ranks start in different orders
                                  ticket = on_comm();
                                  on_main();
                                } else {
                                  on_main();
                                  ticket = on_comm();
                                }
                                me.wait(ticket);
                                return Values{read(me, in_comm.cut(999, 1), 0), read(me, in_main.cut(0, 1), 0)};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values, (std::vector<Values>{{22, 21}, {20, 20}}));
  EXPECT_GT(outcome.ledgers[0].queues[1].transferring, 0);
}

TEST(NcclUnchecked, ALongChainOfClosures) {
  NEED_PROCESSES(4);
  const Outcome outcome = run(speed_options(4), Program([](Rank me) {
                                Rank comm = me.split(0, me.rank()).stream("comm");
                                Slice total = filled(me, 64, 1.f);
                                Ticket last;
                                for (int step = 0; step < 12; ++step)
                                  last = me.run(comm, [total](Rank r) {
                                    Slice in = r.allocate(64, DType::f32, Category::buffer);
                                    Slice out = r.allocate(64, DType::f32, Category::buffer);
                                    copy(r, out, total);
                                    r.exchange({send((r.rank() + 1) % 4, out), receive((r.rank() + 3) % 4, in)});
                                    add(r, total, in);
                                  });
                                me.wait(last);
                                return Values{read(me, total.cut(63, 1), 0)};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (const Values& values : outcome.values) EXPECT_EQ(values, Values{4096});
}

/// Memory last held by a closure is free only after main's stream has waited for it; otherwise new data would be
/// overwritten.
TEST(NcclUnchecked, MemoryOfAClosureIsFreeAfterItsEnd) {
  NEED_PROCESSES(2);
  const Outcome outcome = run(speed_options(2), Program([](Rank me) {
                                Rank comm = me.stream("comm");
                                const int peer = 1 - me.rank();
                                double wrong = 0;
                                for (int step = 0; step < 20; ++step) {
                                  Slice result = filled(me, 5000, 0);
                                  Ticket ticket;
                                  {
                                    Slice mine = filled(me, 5000, 100.f * me.rank() + step);
                                    ticket = me.run(comm, [=](Rank r) {
                                      r.exchange({send(peer, mine), receive(peer, result)});
                                      add(r, result, mine);
                                    });
                                  }
                                  me.wait(ticket);
                                  Slice next = filled(me, 5000, -1);  // reuses the memory of `mine`
                                  wrong += read(me, result.cut(4999, 1), 0) != 100.f + 2 * step;
                                }
                                return Values{wrong};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values, (std::vector<Values>{{0}, {0}}));
}

/// One queue may wait for work that comes after work of another queue, which the GPU was given later.
TEST(NcclUnchecked, QueuesDoNotTakeTurns) {
  NEED_PROCESSES(2);
  const Outcome outcome =
      run(speed_options(2), Program([](Rank me) {
            Rank comm = me.stream("comm");
            const int peer = 1 - me.rank();
            Slice early = filled(me, 3, 1), late = filled(me, 3, 0);
            Slice mine = filled(me, 3, 2), theirs = filled(me, 3, 0);
            Ticket first;
            if (me.rank() == 0) first = me.start({receive(peer, late)});
            me.wait(me.run(comm, [=](Rank r) { r.exchange({send(peer, mine), receive(peer, theirs)}); }));
            const float between = read(me, theirs.cut(2, 1), 0);
            if (me.rank() == 0)
              me.wait(first);
            else
              me.exchange({send(peer, early)});
            return Values{between, read(me, late.cut(2, 1), 0)};
          }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values, (std::vector<Values>{{2, 1}, {2, 0}}));
}

/// A failure of a few ranks ends their communicators, and none of those used by others.
TEST(NcclUnchecked, AFailureOfFewLeavesTheOthersWhatTheyHave) {
  NEED_PROCESSES(3);
  auto ring = [] {
    return run(speed_options(3), Program([](Rank me) {
                 const Rank few = me.split(me.rank() / 2, me.rank());
                 Slice mine = filled(me, 4, me.rank() + 1.f), theirs = filled(me, 4, 0);
                 me.exchange({send(next(me), mine), receive(previous(me), theirs)});
                 return Values{read(me, theirs.cut(3, 1), 0), few.size() + 0.0};
               }));
  };
  const std::vector<Values> expected{{3, 2}, {1, 2}, {2, 1}};
  const Outcome before = ring();
  ASSERT_TRUE(before.passed()) << before.message;
  EXPECT_EQ(before.values, expected);
  const Outcome failed = run(speed_options(2), [](Rank me) {
    Slice a = filled(me, 4, 0);
    if (me.rank() == 1) throw std::runtime_error("no more");
    me.exchange({receive(1, a)});
    (void)first(me, a);
  });
  expect_failure(failed, Verdict::fail, {"no more"});
  const Outcome after = ring();
  ASSERT_TRUE(after.passed()) << after.message;
  EXPECT_EQ(after.values, expected);
}

TEST(NcclUnchecked, WhatNobodyReceivesIsFound) {
  NEED_PROCESSES(2);
  const Outcome outcome = run(speed_options(2), [](Rank me) {
    Slice a = filled(me, 4, 1);
    if (me.rank() == 0) me.exchange({send(1, a), send(1, a)});
  });
  expect_failure(outcome, Verdict::unread, {"UNREAD: rank 0 sends", "to rank 1", "1 more"});
  expect_good_run();
}

TEST(NcclUnchecked, WhatNobodySendsIsFound) {
  NEED_PROCESSES(2);
  const Outcome outcome = run(speed_options(2), [](Rank me) {
    Slice a = filled(me, 4, 1);
    if (me.rank() == 0) me.exchange({receive(1, a)});
  });
  expect_failure(outcome, Verdict::deadlock, {"DEADLOCK", "rank 0 waits for rank 1", "never sent"});
  expect_good_run();
}

TEST(NcclUnchecked, AnOrderThatCannotBeIsShownAsATable) {
  NEED_PROCESSES(2);
  const Outcome outcome = run(speed_options(2), [](Rank me) {
    Slice a = filled(me, 4, 1), b = filled(me, 4, 0);
    me.exchange({receive(1 - me.rank(), b)});
    me.exchange({send(1 - me.rank(), a)});
  });
  expect_failure(outcome, Verdict::deadlock,
                 {"2 ranks wait for each other in a cycle: 0 → 1 → 0.",
                  "rank 1: waits at the end of the program for "
                  "the GPU",
                  "queue \"main\" transfers since at unchecked_test.cpp", "batch 1: receives 16 bytes from"});
  expect_good_run();
}

TEST(NcclUnchecked, ADoorThatNeverOpensIsShownAsATable) {
  NEED_PROCESSES(2);
  const Outcome outcome = run(speed_options(2), Program([](Rank me) {
                                Slice a = filled(me, 1, 1), b = filled(me, 1, 0);
                                me.exchange({receive(1 - me.rank(), b)});
                                const float value = read(me, b, 0);
                                me.exchange({send(1 - me.rank(), a)});
                                return Values{value};
                              }));
  expect_failure(outcome, Verdict::deadlock, {"DEADLOCK", "waits at unchecked_test.cpp", "for the GPU", "4 bytes"});
  expect_good_run();
}

TEST(NcclUnchecked, AFailureOfOneEndsAllWhileTheGpuWaits) {
  NEED_PROCESSES(2);
  const Outcome outcome = run(speed_options(2), [](Rank me) {
    Rank comm = me.stream("comm");
    Slice a = filled(me, 4, 1), b = filled(me, 4, 0);
    Ticket ticket = me.run(comm, [=](Rank r) {
      if (r.rank() == 1) throw std::runtime_error("no more");
      r.exchange({receive(1, b), send(1, a)});
    });
    me.wait(ticket);
    (void)read(me, b.cut(0, 1), 0);
  });
  expect_failure(outcome, Verdict::fail, {"rank 1, in the closure", "comm", "no more"});
  expect_good_run();
}

TEST(NcclUnchecked, OutOfMemoryNamesWhatAndHowMuch) {
  const Outcome outcome = run(speed_options(1), [](Rank me) {
    Slice huge = me.allocate(std::size_t{1} << 40, DType::f32, Category::gradient);
  });
  expect_failure(outcome, Verdict::fail, {"out of memory: 4398046511104 bytes for gradients", "rank 0 on "});
}

}  // namespace
}  // namespace lockstep
