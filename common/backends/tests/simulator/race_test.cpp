// Two unordered uses of the same bytes are a RACE even if the result is correct; and queued work that runs early or
// late.
#include "common/backends/tests/simulator/expect.hpp"

namespace lockstep {
namespace {

using namespace simulator_tests;

TEST(Race, AForgottenWait) {
  expect(ranks(2),
         [](Rank me) {
           Slice x = buffer(me);
           fill(me, x, 1);
           Ticket t = me.rank() == 0 ? me.start({send(1, x)}) : me.start({receive(0, x)});
           if (me.rank() == 1) scale(me, x, 2);  // before the wait
           me.wait(t);
         },
         Verdict::race, {"rank 1: RACE", "scale at race_test.cpp:", "writes", "a receive started at race_test.cpp:"});
}

TEST(Race, WritingWhatIsBeingSent) {
  expect(ranks(2),
         [](Rank me) {
           Slice x = buffer(me);
           fill(me, x, 1);
           Ticket t = me.rank() == 0 ? me.start({send(1, x)}) : me.start({receive(0, x)});
           if (me.rank() == 0) fill(me, x, 2);
           me.wait(t);
         },
         Verdict::race, {"rank 0: RACE", "a send started"});
}

TEST(Race, ReadingWhatIsBeingSentIsFine) {
  expect(ranks(2),
         [](Rank me) {
           Slice x = buffer(me), y = buffer(me);
           fill(me, x, 1);
           Ticket t = me.rank() == 0 ? me.start({send(1, x)}) : me.start({receive(0, y)});
           copy(me, me.rank() == 0 ? y : buffer(me), x);
           me.wait(t);
         },
         Verdict::pass, {});
}

TEST(Race, TwoQueuesWithoutAnOrder) {
  expect(ranks(1),
         [](Rank me) {
           Rank other = me.stream("other");
           Slice x = buffer(me);
           fill(me, x, 1);
           Ticket t = me.run(other, [x](Rank queue) { scale(queue, x, 2); });
           scale(me, x, 3);
           me.wait(t);
         },
         Verdict::race, {"scale", "nothing orders the two"});
}

TEST(Race, DisjointHalvesAreFine) {
  expect(ranks(1),
         [](Rank me) {
           Rank other = me.stream("other");
           Slice x = buffer(me);
           fill(me, x, 1);
           Ticket t = me.run(other, [x](Rank queue) { scale(queue, x.cut(0, 8), 2); });
           scale(me, x.cut(8, 8), 3);
           me.wait(t);
           scale(me, x, 4);
         },
         Verdict::pass, {});
}

TEST(Race, ReceivingIntoWhatIsSentInTheSameBatch) {
  expect(ranks(2),
         [](Rank me) {
           Slice x = buffer(me);
           fill(me, x, 1);
           me.exchange({send(1 - me.rank(), x), receive(1 - me.rank(), x)});
         },
         Verdict::race, {"a receive started", "a send started", "name the same part of the array"});
}

TEST(Race, ReceivingIntoAPartOfWhatIsSentInTheSameBatch) {
  expect(ranks(2),
         [](Rank me) {
           Slice x = buffer(me);
           fill(me, x, 1);
           if (me.rank() == 0)
             me.exchange({send(1, x), receive(1, x.cut(0, 8))});
           else
             me.exchange({receive(0, x), send(0, buffer(me, 8))});
         },
         Verdict::race, {"use two batches, or two slices"});
}

TEST(Race, AnOrderThroughAnotherRankDoesNotCount) {
  // The second message shows that rank 1 has read x, but nothing on rank 0 waited for the first send.
  expect(ranks(2),
         [](Rank me) {
           Slice x = buffer(me), y = buffer(me);
           Rank other = me.stream("other");
           if (me.rank() == 0) {
             fill(me, x, 1);
             Ticket first = me.start({send(1, x)});
             me.wait(me.run(other, [y](Rank queue) { queue.exchange({receive(1, y)}); }));
             fill(me, x, 2);
             me.wait(first);
           } else {
             me.exchange({receive(0, x)});
             me.wait(me.run(other, [x](Rank queue) { queue.exchange({send(0, x)}); }));
           }
         },
         Verdict::race, {"rank 0: RACE"});
}

TEST(Race, CanBeSwitchedOff) {
  RunOptions options = ranks(1);
  options.check_races = false;
  expect(options,
         [](Rank me) {
           Rank other = me.stream("other");
           Slice x = buffer(me);
           Ticket t = me.run(other, [x](Rank queue) { fill(queue, x, 2); });
           fill(me, x, 3);
           me.wait(t);
         },
         Verdict::pass, {});
}

TEST(Perturb, ChangesWhenButNotWhat) {
  auto program = [](Rank me) {
    Rank comm = me.stream("comm");
    Slice x = buffer(me), sum = buffer(me);
    fill(me, x, static_cast<float>(me.rank() + 1));
    fill(me, sum, 0);
    Ticket t = me.run(comm, [x, sum](Rank queue) {
      Slice in = queue.allocate(x.size(), DType::f32, Category::buffer);
      Ticket going = queue.start(
          {send((queue.rank() + 1) % queue.size(), x), receive((queue.rank() + queue.size() - 1) % queue.size(), in)});
      queue.wait(going);
      add(queue, sum, in);
    });
    Slice other = buffer(me);
    fill(me, other, 7);
    me.wait(t);
    add(me, sum, other);
    return Values{to_host(me, sum)[3], me.now()};
  };
  RunOptions options = ranks(4);
  const Outcome plain = run(options, program);
  ASSERT_TRUE(plain.passed()) << plain.message;
  bool moved = false;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    options.perturb = seed;
    const Outcome outcome = run(options, program);
    ASSERT_TRUE(outcome.passed()) << outcome.message;
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(outcome.values[r][0], plain.values[r][0]);
      moved |= outcome.values[r][1] != plain.values[r][1];
    }
  }
  EXPECT_TRUE(moved);
}

}  // namespace
}  // namespace lockstep
