// The simulator itself: virtual times compared with closed forms, order, rendezvous, overlap, determinism.
#include <gtest/gtest.h>

#include <cmath>

#include "common/backends/tests/simulator/algorithms.hpp"
#include "common/backends/tests/simulator/times.hpp"
#include "common/runtime/backend.hpp"
#include "common/runtime/machine/operation.hpp"

namespace lockstep {
namespace {

using namespace simulator_tests;

double ring_form(int p, double bytes, double alpha, double beta) {
  return 2 * (p - 1) * alpha + 2.0 * (p - 1) / p * bytes * beta + double(p - 1) / p * bytes * kGamma;
}

TEST(ClosedForm, Ring) {
  for (int p : {2, 3, 4, 7, 64, 1024}) {
    const std::size_t count = 1024 * static_cast<std::size_t>(p);
    RunOptions options = on(p);
    options.check_races = p < 100;  // they take most of the time
    expect_close(seconds(options, count, ring), ring_form(p, 4.0 * count, kAlpha, kBeta));
  }
}

TEST(Prices, AreNotNegativeAndFinite) {
  for (const Operation& operation : {Operation{.name = "a", .flop = -1e15, .bytes = -1e15},
                                     Operation{.name = "a", .flop = NAN}, Operation{.name = "a", .bytes = INFINITY}}) {
    const Outcome outcome = run(on(1), [&](Rank me) -> Values {
      me.backend().compute({0, 0}, operation, Kernel([](Device&) {}), Location::current());
      return {};
    });
    EXPECT_EQ(outcome.verdict, Verdict::usage);
    EXPECT_NE(outcome.message.find("finite and not negative"), std::string::npos) << outcome.message;
  }
}

TEST(ClosedForm, RecursiveDoubling) {
  for (int p : {2, 4, 32, 256}) {
    const double bytes = 4e6;
    expect_close(seconds(on(p), 1'000'000, recursive_doubling), std::log2(p) * (kAlpha + bytes * (kBeta + kGamma)));
  }
}

TEST(ClosedForm, NaiveIsSerialAtTheRoot) {
  // The root's p − 1 receives follow one another; each rank's message is ready long before. Every receive pays the
  // latency, since a rendezvous begins only when the root is ready for it. The root's last send is complete when it has
  // left; it arrives α later.
  for (int p : {2, 3, 8, 33}) {
    const double bytes = 4e6;
    const double expected = (p - 1) * (kAlpha + bytes * (kBeta + kGamma)) + (p - 1) * bytes * kBeta + kAlpha;
    expect_close(seconds(on(p), 1'000'000, naive), expected);
  }
}

TEST(ClosedForm, Hierarchical) {
  const int g = 4, k = 8;
  const double bytes = 4.0 * 32 * 1024;
  const Machine machine = cluster(g, false);
  const double alpha_in = machine.alpha(0), beta_in = machine.beta(0);
  const double inside = (g - 1) * (2 * alpha_in + 2 * bytes / g * beta_in + bytes / g * kGamma);
  const double across = ring_form(k, bytes / g, machine.alpha(1), machine.beta(1));
  const double time = seconds(on(g * k, machine), 32 * 1024, [&](Rank me, Slice x) { hierarchical(me, x, g); });
  expect_close(time, inside + across);
}

TEST(Determinism, TwoRunsGiveTheSameBits) {
  auto program = [](Rank me) {
    Slice x = me.allocate(1000, DType::f32, Category::gradient);
    Rank comm = me.stream("comm");
    Ticket t = me.run(comm, [x](Rank queue) { ring(queue, x); });
    Slice y = me.allocate(5000, DType::f32, Category::activation);
    for (int i = 0; i < 10; ++i) fill(me, y, 1);
    me.wait(t);
    return Values{me.now()};
  };
  const Outcome a = run(on(13, cluster(4, true)), program), b = run(on(13, cluster(4, true)), program);
  ASSERT_TRUE(a.passed()) << a.message;
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.seconds, b.seconds);
}

TEST(Order, MessagesOfOnePairKeepTheirOrderWhenRanksDriftApart) {
  // Uneven chunks over fast and slow links: a message that overtook another would meet a receive of a different size.
  for (int p : {5, 13}) {
    EXPECT_GT(seconds(on(p, cluster(4, false)), 1000, ring), 0);
    EXPECT_GT(seconds(on(p, cluster(4, true)), 1000, ring), 0);
  }
}

TEST(Determinism, PhantomTimesAreThoseOfRealData) {
  RunOptions real = on(5);
  real.phantom = false;
  EXPECT_EQ(seconds(on(5), 12345, ring), seconds(real, 12345, ring));
}

TEST(Order, BatchesOfOneQueueGoOneAtATime) {
  // The second batch could start at once, but waits until the first has been received.
  const Outcome outcome = run(on(3), [](Rank me) {
    Slice x = me.allocate(1'000'000, DType::f32, Category::buffer);
    if (me.rank() == 0) {
      Ticket first = me.start({send(1, x)});
      me.start({send(2, x)});
      me.wait(first);
      me.wait(me.start({receive(1, me.allocate(1, DType::f32, Category::buffer))}));
    } else if (me.rank() == 1) {
      fill(me, x, 0);  // late
      me.exchange({receive(0, x)});
      me.exchange({send(0, me.allocate(1, DType::f32, Category::buffer))});
    } else {
      me.exchange({receive(0, x)});
    }
    return Values{me.now()};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  const double fill_seconds = 4e6 * kGamma / 3;
  expect_close(outcome.values[2][0], fill_seconds + 2 * 4e6 * kBeta + kAlpha);
}

TEST(Order, ThousandsOfQueuedBatchesBeginOneAfterTheOther) {
  // The messages have arrived when the receives can begin, that is, when the first one, from rank 2, is complete. Each
  // batch is then complete as soon as it begins.
  const int count = 100'000;
  RunOptions options = on(3);
  options.check_races = false;
  const Outcome outcome = run(options, [&](Rank me) {
    Slice x = me.allocate(1, DType::f32, Category::buffer);
    Slice late = me.allocate(1'000'000'000, DType::f32, Category::buffer);
    if (me.rank() == 2) fill(me, late, 0);
    if (me.rank() == 2) me.exchange({send(1, x)});
    Ticket last = me.rank() == 1 ? me.start({receive(2, x)}) : Ticket{};
    for (int i = 0; i < count && me.rank() != 2; ++i)
      last = me.rank() == 0 ? me.start({send(1, x)}) : me.start({receive(0, x)});
    me.wait(last);
  });
  EXPECT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.messages, count + 1u);
}

TEST(Ledger, ARegionStaysOpenWhileAQueueIsMade) {
  const Outcome outcome = run(on(2), [](Rank me) {
    Scope scope = me.region("all", 4);
    for (const char* name : {"a", "b", "c", "d", "e"}) (void)me.stream(name);
    me.exchange({send(1 - me.rank(), me.allocate(1, DType::f32, Category::buffer)),
                 receive(1 - me.rank(), me.allocate(1, DType::f32, Category::buffer))});
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  ASSERT_TRUE(outcome.ledgers[0].region("all"));
  EXPECT_EQ(outcome.ledgers[0].region("all")->batches, 1u);
  EXPECT_EQ(outcome.ledgers[0].region("all")->traffic.bytes_sent, 4u);
}

// Overlap -----------------------------------------------------------------------------------------------------------

TEST(Overlap, TransfersHideBehindArithmeticWhichTheyLengthen) {
  const std::size_t bytes = 4'000'000;
  const Outcome outcome = run(on(2), [&](Rank me) {
    Rank comm = me.stream("comm");
    Slice x = me.allocate(bytes / 4, DType::f32, Category::gradient);
    Slice big = me.allocate(100 * bytes / 4, DType::f32, Category::activation);
    Ticket t = me.run(comm, [x](Rank queue) { ring(queue, x); });
    fill(me, big, 1);
    me.wait(t);
    return Values{me.now()};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  const double fill_alone = 100 * bytes * kGamma / 3, add_half = bytes / 2 * kGamma;
  ASSERT_GT(fill_alone, ring_form(2, bytes, kAlpha, kBeta)) << "else nothing is hidden";
  // The ring's one addition extends the fill by its own duration; the transfers cost nothing.
  expect_close(outcome.values[0][0], fill_alone + add_half);
  EXPECT_NEAR(outcome.ledgers[0].queues[0].waiting, 0, 1e-15);
}

TEST(Overlap, AClosureBeginsAfterWhatMainHasDone) {
  const Outcome outcome = run(on(1), [&](Rank me) {
    Rank other = me.stream("other");
    Slice x = me.allocate(1'000'000, DType::f32, Category::activation);
    fill(me, x, 1);
    Ticket t = me.run(other, [x](Rank queue) { scale(queue, x, 2); });
    me.wait(t);
    return Values{me.now()};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  expect_close(outcome.values[0][0], 4e6 * kGamma / 3 * (1 + 2));
}

// Eager and rendezvous ------------------------------------------------------------------------------------------------

Outcome send_send(std::size_t count) {
  RunOptions options = on(2);
  options.machine.eager_bytes = 8192;
  options.phantom = false;
  return run(options, [&](Rank me) {
    Slice mine = me.allocate(count, DType::f32, Category::buffer),
          theirs = me.allocate(count, DType::f32, Category::buffer);
    fill(me, mine, static_cast<float>(me.rank() + 1));
    me.exchange({send(1 - me.rank(), mine)});
    fill(me, mine, -1);  // its message has left, and may be in a buffer
    me.exchange({receive(1 - me.rank(), theirs)});
    return Values{to_host(me, theirs)[0]};
  });
}

TEST(Rendezvous, SmallSendsGoEagerlyAndLargeOnesDeadlock) {
  const Outcome small = send_send(2048);
  ASSERT_TRUE(small.passed()) << small.message;
  EXPECT_EQ(small.values[0][0], 2);
  EXPECT_EQ(small.values[1][0], 1);
  const Outcome large = send_send(2049);
  EXPECT_EQ(large.verdict, Verdict::deadlock);
  EXPECT_NE(large.message.find("a send above 8192 bytes is not buffered"), std::string::npos) << large.message;
}

}  // namespace
}  // namespace lockstep
