// The ledgers of traffic, memory and time, and transfers to and from the host.
#include "common/backends/tests/support.hpp"
#include "common/testing/values.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

TEST(Ledgers, Traffic) {
  NEED_RANKS(4);
  const Outcome outcome = run_on(4, [](Rank me) {
    Rank pair = me.split(me.rank() / 2, me.rank()).stream("comm");
    Slice a = filled(me, 100, 1), b = empty_of(me, 100);
    for (int step = 0; step < 3; ++step) me.exchange({send(next(me), a), receive(previous(me), b)});
    const int peer = 1 - pair.rank();
    me.wait(me.run(pair, [=](Rank r) { r.exchange({send(peer, a.cut(0, 10)), receive(peer, b.cut(0, 10))}); }));
    return Values{static_cast<double>(ledger_of(me).traffic.bytes_sent)};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.messages, 16u);
  for (int r = 0; r < 4; ++r) {
    const RankLedger& ledger = outcome.ledgers[r];
    EXPECT_EQ(outcome.values[r], Values{1240});
    EXPECT_EQ(ledger.batches, 4u);
    EXPECT_EQ(ledger.traffic.messages_sent, 4u);
    EXPECT_EQ(ledger.traffic.messages_received, 4u);
    EXPECT_EQ(ledger.traffic.bytes_sent, 1240u);
    EXPECT_EQ(ledger.traffic.bytes_received, 1240u);
    EXPECT_EQ(ledger.sent_to((r + 1) % 4), 1200u + (r % 2 == 0 ? 40u : 0u));
    EXPECT_EQ(ledger.sent_to(r ^ 1), r % 2 == 0 ? 1240u : 40u);
  }
}

TEST(Ledgers, Regions) {
  NEED_RANKS(2);
  const Outcome outcome = run_on(2, [](Rank me) {
    Slice a = filled(me, 10, 1), b = empty_of(me, 10);
    const int peer = 1 - me.rank();
    for (int step = 0; step < 2; ++step) {
      Scope phase = me.region("step");
      me.exchange({send(peer, a), receive(peer, b)});
      {
        Scope collective = me.region("all_reduce", 40);
        me.exchange({send(peer, a), receive(peer, b)});
        me.exchange({send(peer, a), receive(peer, b)});
      }
    }
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (const RankLedger& ledger : outcome.ledgers) {
    const RegionTotal *step = ledger.region("step"), *all_reduce = ledger.region("all_reduce");
    ASSERT_TRUE(step && all_reduce);
    EXPECT_TRUE(step->phase);
    EXPECT_FALSE(all_reduce->phase);
    EXPECT_EQ(step->visits, 2u);
    EXPECT_EQ(all_reduce->visits, 2u);
    EXPECT_EQ(all_reduce->bytes, 80u);
    EXPECT_EQ(all_reduce->batches, 4u);
    EXPECT_EQ(all_reduce->traffic.bytes_sent, 160u);
    EXPECT_GE(step->seconds, all_reduce->seconds);
    EXPECT_GT(all_reduce->seconds, 0);
  }
}

TEST(Ledgers, Memory) {
  NEED_RANKS(2);
  const Outcome outcome = run_on(2, [](Rank me) {
    Rank comm = me.stream("comm");
    Slice weights = me.allocate(100, DType::f32, Category::parameter);
    Slice halves = me.allocate(100, DType::bf16, Category::activation);
    fill(me, weights, 1);
    { Slice gone = me.allocate(50, DType::f32, Category::activation); }
    Ticket ticket = me.run(comm, [weights](Rank r) {
      Slice scratch = r.allocate(25, DType::f32, kBuffer);
      copy(r, scratch, weights.cut(0, 25));
    });
    me.wait(ticket);
    const Memory memory = ledger_of(me).memory;
    return Values{double(memory.live_of(Category::parameter)), double(memory.live_of(Category::activation)),
                  double(memory.live_of(kBuffer))};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (int r = 0; r < 2; ++r) {
    const Memory& memory = outcome.ledgers[r].memory;
    EXPECT_EQ(outcome.values[r], (Values{400, 200, 0}));
    EXPECT_EQ(memory.peak_of(Category::parameter), 400u);
    EXPECT_EQ(memory.peak_of(Category::activation), 400u);
    EXPECT_EQ(memory.peak_of(kBuffer), 100u);
    EXPECT_EQ(memory.peak_total, 900u);
    EXPECT_EQ(memory.live_of(Category::parameter), 0u);
  }
}

TEST(Ledgers, MemoryIsHeldUntilTheWait) {
  NEED_RANKS(2);
  const Outcome outcome = run_on(2, [](Rank me) {
    Rank comm = me.stream("comm");
    auto live = [&] { return static_cast<double>(ledger_of(me).memory.live_of(kBuffer)); };
    Values seen;
    Ticket batch;
    {
      Slice out = filled(me, 10, 1), in = empty_of(me, 10);
      batch = me.start({send(1 - me.rank(), out), receive(1 - me.rank(), in)});
    }
    seen.push_back(live());
    me.wait(batch);
    seen.push_back(live());
    Ticket one, two;
    {
      Slice a = filled(me, 10, 1), b = filled(me, 20, 1);
      one = me.run(comm, [a](Rank r) { add(r, a, a); });
      two = me.run(comm, [b](Rank r) { add(r, b, b); });
    }
    me.wait(one);
    seen.push_back(live());
    me.wait(two);
    seen.push_back(live());
    return seen;
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], (Values{80, 0, 80, 0}));
  EXPECT_EQ(outcome.ledgers[1].memory.peak_of(kBuffer), 120u);
}

TEST(Ledgers, Time) {
  NEED_RANKS(2);
  RunOptions options = options_for(2);
  options.trace = true;
  const Outcome outcome = run(options, Program([](Rank me) {
                                Rank comm = me.stream("comm");
                                Slice a = filled(me, 100'000, 1), b = empty_of(me, 100'000);
                                me.wait(me.run(comm, [=](Rank r) {
                                  Scope region = r.region("swap", a.bytes());
                                  r.exchange({send(1 - r.rank(), a), receive(1 - r.rank(), b)});
                                }));
                                add(me, a, b);
                                return Values{me.now()};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_GT(outcome.seconds, 0);
  for (int r = 0; r < 2; ++r) {
    const RankLedger& ledger = outcome.ledgers[r];
    ASSERT_EQ(ledger.queues.size(), 2u);
    EXPECT_EQ(ledger.queues[1].queue, "comm");
    EXPECT_GT(ledger.queues[0].busy, 0);
    EXPECT_GT(ledger.queues[0].waiting, 0);  // for the closure
    EXPECT_GT(ledger.queues[1].transferring, 0);
    EXPECT_LE(ledger.queues[0].busy + ledger.queues[0].waiting, ledger.queues[0].end * (1 + 1e-9));
    EXPECT_GT(outcome.values[r][0], 0);
    EXPECT_LE(outcome.values[r][0], ledger.seconds * (1 + 1e-9));
  }
  if (!is_judge()) return;
  auto count = [&](TraceEvent::Kind kind) {
    return std::count_if(outcome.trace.events.begin(), outcome.trace.events.end(),
                         [kind](const TraceEvent& event) { return event.kind() == kind; });
  };
  EXPECT_EQ(count(TraceEvent::Kind::compute), 4);
  EXPECT_EQ(count(TraceEvent::Kind::transfer), 2);
  EXPECT_EQ(count(TraceEvent::Kind::region), 2);
  EXPECT_GE(count(TraceEvent::Kind::wait), 2);
  EXPECT_NE(std::find(outcome.trace.queues.begin(), outcome.trace.queues.end(), "comm"), outcome.trace.queues.end());
}

/// A trace's memory agrees with the ledger, on backends whose host knows when memory is allocated.
TEST(Ledgers, MemoryOverTime) {
  NEED_RANKS(2);
  RunOptions options = options_for(2);
  options.trace = true;
  const Outcome outcome = run(options, [](Rank me) {
    Rank comm = me.stream("comm");
    Slice a = filled(me, 10, 1);
    upload(me, a, std::vector<float>(10, 1));
    Slice b = empty_of(me, 10);
    me.wait(me.run(comm, [a](Rank r) { add(r, a, filled(r, 10, 2)); }));
    me.exchange({send(1 - me.rank(), a), receive(1 - me.rank(), b)});
    a = {};
    filled(me, 30, 1);
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  if (!is_judge()) return;
  const Trace& trace = outcome.trace;
  if (on_gpu()) {
    EXPECT_TRUE(trace.blocks.empty());
    return;
  }
  ASSERT_EQ(trace.blocks.size(), 2 * 4u);
  for (int rank = 0; rank < 2; ++rank) {
    const TraceBlock* own = &trace.blocks[static_cast<std::size_t>(4 * rank)];
    for (std::uint64_t id = 1; id <= 4; ++id) {
      EXPECT_EQ(own[id - 1].rank, rank);
      EXPECT_EQ(own[id - 1].id, id);
      EXPECT_EQ(own[id - 1].uploaded, id == 1);
      EXPECT_GE(own[id - 1].end, own[id - 1].begin) << "all of it was released";
    }
    EXPECT_LE(own[2].end, own[3].begin) << "the scratch of the closure, and what came after it";
    EXPECT_EQ(own[3].bytes, 120u);
  }
  for (const TraceEvent& event : trace.events) {
    if (!event.compute() || event.name != "add") continue;
    const std::vector<TraceUse>& uses = event.compute()->uses;
    ASSERT_EQ(uses.size(), 2u);
    EXPECT_EQ(uses[0].block, 3u);
    EXPECT_EQ(uses[1].block, 1u);
    EXPECT_TRUE(uses[1].writes);
  }
}

/// An emulated run, delayed to the modelled time, takes as long as the simulated one, or longer if the host cannot keep
/// up; never shorter.
TEST(Ledgers, EmulatedTime) {
  NEED_RANKS(2);
  if (on_gpu()) GTEST_SKIP() << "a GPU's time is measured, never emulated";
  RunOptions options = options_for(2);
  options.machine = Machine::uniform(1e-3, 1e-7, 1e-8);
  options.emulate = true;
  options.emulate_scale = 2;
  constexpr std::size_t kElements = 10'000;
  const Outcome outcome = run(options, Program([](Rank me) {
                                Slice a = empty_of(me, kElements), b = empty_of(me, kElements);
                                for (int step = 0; step < 3; ++step) {
                                  me.exchange({send(1 - me.rank(), a), receive(1 - me.rank(), b)});
                                  add(me, a, b);
                                }
                                return Values{me.now()};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  const double bytes = 4 * kElements, expected = 3 * (1e-3 + bytes * 1e-7 + bytes * 1e-8);
  EXPECT_GE(outcome.seconds, expected * (1 - 1e-9));
  EXPECT_LE(outcome.seconds, expected * 10);  // the host may be busy
  if (testing::test_options().available_ranks > 0) {
    EXPECT_GE(outcome.wall_seconds, 2 * expected * (1 - 1e-9));
  }
  EXPECT_GE(outcome.values[0][0], expected * (1 - 1e-9));
}

/// A message that needs no receiver has arrived when its receive begins, which then takes zero time, not negative time.
TEST(Ledgers, WhatCameEarlyEndsWhenItIsReceived) {
  NEED_RANKS(2);
  if (on_gpu()) GTEST_SKIP() << "a GPU's time is measured, never emulated";
  RunOptions options = options_for(2);
  options.machine = Machine::uniform(1e-3, 1e-7, 1e-7);
  options.machine.eager_bytes = 1 << 20;
  options.emulate = options.trace = true;
  const Outcome outcome = run(options, [](Rank me) {
    Slice small = filled(me, 1, 1), large = empty_of(me, 100'000);
    if (me.rank() == 0) return me.exchange({send(1, small)});
    fill(me, large, 0);  // 13 ms; the message takes one
    me.exchange({receive(0, small)});
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  if (!is_judge()) return;
  int transfers = 0;
  for (const TraceEvent& event : outcome.trace.events) {
    if (!event.transfer()) continue;
    ++transfers;
    EXPECT_GE(event.end, event.begin) << "rank " << event.rank;
  }
  EXPECT_EQ(transfers, 2);
}

TEST(ExplicitSync, UploadReadAndToHost) {
  const Outcome outcome = run_on(1, [](Rank me) {
    Slice x = me.allocate(3, DType::bf16, kBuffer), tokens = me.allocate(2, DType::i32, kBuffer);
    Slice new_memory = me.allocate(1, DType::f32, kBuffer);
    upload(me, x, std::vector<float>{1, 2.5, -3});
    upload(me, tokens, std::vector<std::int32_t>{7, -9});
    Values seen;
    testing::append(me, x, seen);
    testing::append(me, tokens, seen);
    const float undefined = read(me, new_memory, 0);
    seen.push_back(undefined != undefined);
    return seen;
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], (Values{1, 2.5, -3, 7, -9, 1}));
  EXPECT_GE(outcome.ledgers[0].reads, 1u);
}

// Sums over all queues, separate for every rank.
TEST(Ledgers, CountFlop) {
  NEED_RANKS(2);
  const Outcome outcome = run_on(2, [](Rank me) {
    Rank side = me.stream("side");
    Slice c = me.allocate(6, DType::f32, kBuffer), a = me.allocate(8, DType::f32, kBuffer),
          b = me.allocate(12, DType::f32, kBuffer);
    for (const Slice& x : {a, b, c}) fill(me, x, 1);
    if (me.rank() == 0) matmul(me, matrix(c, 2, 3), matrix(a, 2, 4), matrix(b, 4, 3));
    me.wait(me.run(side, [=](Rank queue) { scale(queue, a, 2); }));
    return Values{};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.ledgers[0].flop, 2 * 2 * 3 * 4 + 8);
  EXPECT_EQ(outcome.ledgers[1].flop, 8);
}

}  // namespace
}  // namespace lockstep
