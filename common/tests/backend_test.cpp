// What every backend does alike: each verb, its ledgers and its errors. Linked once with each backend; on MPI all
// processes run every test together, and each knows the same outcome.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "common/arithmetic.hpp"
#include "common/run.hpp"
#include "common/testing/options.hpp"

namespace lockstep {
namespace {

constexpr auto kBuffer = Category::buffer;

RunOptions options_for(int ranks) {
  RunOptions options;
  options.ranks = ranks;
  options.threads = 1;
  options.patience_seconds = 1;
  options.machine.eager_bytes = 0;
  return options;
}

/// False where the backend has fewer processes.
bool has(int ranks) {
  const int available = testing::test_options().available_ranks;
  return available == 0 || ranks <= available;
}
#define NEED_RANKS(p) \
  if (!has(p)) GTEST_SKIP() << "needs " << (p) << " ranks"

bool on_gpu() { return std::string_view(backend_name()) == "cuda" || std::string_view(backend_name()) == "nccl"; }

template <class F>
Outcome run_on(int ranks, F program) {
  return run(options_for(ranks), program);
}

Slice filled(Rank me, std::size_t count, float value) {
  Slice slice = me.allocate(count, DType::f32, kBuffer);
  fill(me, slice, value);
  return slice;
}
Slice empty_of(Rank me, std::size_t count) { return me.allocate(count, DType::f32, kBuffer); }
float first(Rank me, const Slice& slice) { return read(me, slice.cut(0, 1), 0); }
int next(Rank me) { return (me.rank() + 1) % me.size(); }
int previous(Rank me) { return (me.rank() + me.size() - 1) % me.size(); }

void expect_failure(const Outcome& outcome, Verdict verdict, std::initializer_list<const char*> words) {
  EXPECT_EQ(to_string(outcome.verdict), to_string(verdict)) << outcome.message;
  for (const char* word : words) EXPECT_NE(outcome.message.find(word), std::string::npos) << outcome.message;
}

// Messages ------------------------------------------------------------------------------------------------------------

TEST(Messages, GoRoundARing) {
  for (int p : {2, 3, 8}) {
    if (!has(p)) continue;
    const Outcome outcome = run_on(p, [](Rank me) {
      Slice mine = filled(me, 1000, static_cast<float>(me.rank())), theirs = empty_of(me, 1000);
      me.exchange({send(next(me), mine), receive(previous(me), theirs)});
      const std::vector<float> values = to_host(me, theirs);
      return Values(values.begin(), values.end());
    });
    ASSERT_TRUE(outcome.passed()) << outcome.message;
    for (int r = 0; r < p; ++r) EXPECT_EQ(outcome.values[r], Values(1000, (r + p - 1) % p));
    EXPECT_EQ(outcome.messages, static_cast<std::uint64_t>(p));
  }
}

TEST(Messages, MatchInTheOrderPosted) {
  NEED_RANKS(2);
  const Outcome outcome = run_on(2, [](Rank me) {
    Values seen;
    if (me.rank() == 0) {
      Slice a = filled(me, 3, 1), b = filled(me, 3, 2), c = filled(me, 3, 3);
      me.exchange({send(1, a), send(1, b)});
      me.exchange({send(1, c)});
    } else {
      Slice a = empty_of(me, 3), b = empty_of(me, 3), c = empty_of(me, 3);
      Ticket first_two = me.start({receive(0, a), receive(0, b)});
      Ticket last = me.start({receive(0, c)});
      me.wait(last);  // and with it the batch before
      me.wait(first_two);
      seen = {first(me, a), first(me, b), first(me, c)};
    }
    return seen;
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[1], (Values{1, 2, 3}));
}

TEST(Messages, TravelWhileTheQueueComputes) {
  NEED_RANKS(2);
  const Outcome outcome = run_on(2, [](Rank me) {
    Slice mine = filled(me, 100'000, static_cast<float>(me.rank() + 1)), theirs = empty_of(me, 100'000);
    Slice work = filled(me, 1000, 1);
    Ticket ticket = me.start({send(1 - me.rank(), mine), receive(1 - me.rank(), theirs)});
    for (int i = 0; i < 10; ++i) add(me, work, work);
    me.wait(ticket);
    me.wait(ticket);    // nothing
    me.wait(Ticket{});  // nothing
    return Values{first(me, theirs), first(me, work)};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], (Values{2, 1024}));
  EXPECT_EQ(outcome.values[1], (Values{1, 1024}));
}

TEST(Messages, ManyBatchesAtOnce) {
  NEED_RANKS(3);
  const Outcome outcome = run_on(3, [](Rank me) {
    std::vector<Slice> in, out;
    Ticket ticket;
    for (int i = 0; i < 50; ++i) {
      out.push_back(filled(me, 10 + i, static_cast<float>(100 * me.rank() + i)));
      in.push_back(empty_of(me, 10 + i));
      ticket = me.start({receive(previous(me), in.back()), send(next(me), out.back())});
    }
    me.wait(ticket);
    Values seen;
    for (int i = 0; i < 50; ++i) seen.push_back(first(me, in[i]) - 100.f * previous(me) - i);
    return seen;
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (const Values& values : outcome.values) EXPECT_EQ(values, Values(50, 0));
}

TEST(Messages, ManyInABatch) {
  NEED_RANKS(3);
  RunOptions options = options_for(3);
  for (bool emulate : {false, true}) {
    if (emulate && on_gpu()) continue;
    options.emulate = emulate;
    options.machine.eager_bytes = 40;  // some are longer, some are not
    const Outcome outcome = run(options, Program([](Rank me) {
                                  double wrong = 0;
                                  for (int time = 0; time < 20; ++time) {
                                    std::vector<Slice> in;
                                    std::vector<Transfer> batch;
                                    for (int i = 0; i < 12; ++i) {
                                      const std::size_t size = 1 + (5 * i + time) % 23;
                                      in.push_back(empty_of(me, size));
                                      batch.push_back(receive(previous(me), in.back()));
                                      batch.push_back(send(next(me), filled(me, size, 100.f * me.rank() + i)));
                                    }
                                    me.exchange(std::span<const Transfer>(batch));
                                    for (int i = 0; i < 12; ++i) wrong += first(me, in[i]) != 100.f * previous(me) + i;
                                  }
                                  return Values{wrong};
                                }));
    ASSERT_TRUE(outcome.passed()) << outcome.message;
    for (const Values& values : outcome.values) EXPECT_EQ(values, Values{0});
  }
}

TEST(Messages, MayBeEmpty) {
  NEED_RANKS(2);
  const Outcome outcome = run_on(2, [](Rank me) {
    Slice nothing = me.allocate(0, DType::f32, kBuffer), data = filled(me, 4, 5), in = empty_of(me, 4);
    const int other = 1 - me.rank();
    me.exchange({send(other, data.cut(2, 0)), receive(other, nothing)});
    me.exchange({send(other, data), receive(other, in)});  // does not match the empty one
    return Values{first(me, in)};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], Values{5});
  EXPECT_EQ(outcome.ledgers[0].traffic.messages_sent, 2u);
  EXPECT_EQ(outcome.ledgers[0].traffic.bytes_sent, 16u);
}

TEST(Messages, MayBeLong) {
  NEED_RANKS(2);
  const Outcome outcome = run_on(2, [](Rank me) {
    const std::size_t n = 3'000'001;
    Slice mine = empty_of(me, n), theirs = empty_of(me, n);
    random_uniform(me, mine, {.seed = 7, .tensor = static_cast<std::uint64_t>(me.rank())}, 0, 1);
    me.exchange({send(1 - me.rank(), mine), receive(1 - me.rank(), theirs)});
    random_uniform(me, mine, {.seed = 7, .tensor = static_cast<std::uint64_t>(1 - me.rank())}, 0, 1);
    scale(me, mine, -1);
    add(me, theirs, mine);
    Slice sum = filled(me, 1, 0);
    add_squares(me, sum, theirs);
    return Values{read(me, sum, 0)};
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], Values{0});
  EXPECT_EQ(outcome.values[1], Values{0});
}

// Groups and queues ---------------------------------------------------------------------------------------------------

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
    // Main sends b before a goes on the other queue; they may not be taken for each other.
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
        // Pass what I have round the ring and add up: total' = total + previous total.
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

// Ledgers -------------------------------------------------------------------------------------------------------------

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
                         [kind](const TraceEvent& event) { return event.kind == kind; });
  };
  EXPECT_EQ(count(TraceEvent::Kind::compute), 4);
  EXPECT_EQ(count(TraceEvent::Kind::transfer), 2);
  EXPECT_EQ(count(TraceEvent::Kind::region), 2);
  EXPECT_GE(count(TraceEvent::Kind::wait), 2);
  EXPECT_NE(std::find(outcome.trace.queues.begin(), outcome.trace.queues.end(), "comm"), outcome.trace.queues.end());
}

/// Sleeping for the modelled time makes an emulated run last as long as the simulated one, and longer where the host
/// cannot keep up; never shorter.
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
  EXPECT_LE(outcome.seconds, expected * 10);  // the host may have other things to do
  if (testing::test_options().available_ranks > 0) {
    EXPECT_GE(outcome.wall_seconds, 2 * expected * (1 - 1e-9));
  }
  EXPECT_GE(outcome.values[0][0], expected * (1 - 1e-9));
}

TEST(Doors, UploadReadAndToHost) {
  const Outcome outcome = run_on(1, [](Rank me) {
    Slice x = me.allocate(3, DType::bf16, kBuffer), tokens = me.allocate(2, DType::i32, kBuffer);
    Slice new_memory = me.allocate(1, DType::f32, kBuffer);
    upload(me, x, std::vector<float>{1, 2.5, -3});
    upload(me, tokens, std::vector<std::int32_t>{7, -9});
    Values seen;
    for (float value : to_host(me, x)) seen.push_back(value);
    for (float value : to_host(me, tokens)) seen.push_back(value);
    const float undefined = read(me, new_memory, 0);
    seen.push_back(undefined != undefined);
    return seen;
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], (Values{1, 2.5, -3, 7, -9, 1}));
  EXPECT_GE(outcome.ledgers[0].reads, 1u);
}

// Of all queues, on every rank its own.
TEST(Ledgers, CountFlop) {
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

// Misuse --------------------------------------------------------------------------------------------------------------

struct Misuse {
  const char* name;
  int ranks;
  std::function<void(Rank)> program;
  std::vector<const char*> words;
};

std::vector<Misuse> misuses() {
  static auto slice = [](Rank me) { return filled(me, 4, 1); };
  return {
      {"peer outside the group", 2, [](Rank me) { me.exchange({send(2, slice(me))}); }, {"group of 2"}},
      {"to myself", 2, [](Rank me) { me.exchange({send(me.rank(), slice(me))}); }, {"itself"}},
      {"never allocated", 2, [](Rank me) { me.exchange({send(1 - me.rank(), Slice())}); }, {"never allocated"}},
      {"cut too long", 1, [](Rank me) { (void)slice(me).cut(2, 3); }, {"outside"}},
      {"run on main", 1, [](Rank me) { me.wait(me.run(me, [](Rank) {})); }, {"stream"}},
      {"queue outside its closure",
       1,
       [](Rank me) {
         Rank comm = me.stream("comm");
         add(comm, slice(me), slice(me));
       },
       {"comm", "outside its closure"}},
      {"main inside a closure",
       1,
       [](Rank me) {
         Rank comm = me.stream("comm");
         Slice x = slice(me);
         me.wait(me.run(comm, [=](Rank) { add(me, x, x); }));
       },
       {"inside a closure", "comm"}},
      {"set-up inside a closure",
       1,
       [](Rank me) {
         Rank comm = me.stream("comm");
         me.wait(me.run(comm, [](Rank r) { (void)r.stream("more"); }));
       },
       {"set-up"}},
      {"a batch waited for on another queue",
       2,
       [](Rank me) {
         Rank comm = me.stream("comm");
         Slice in = slice(me), out = slice(me);
         const int peer = 1 - me.rank();
         Ticket ticket = me.start({send(peer, out), receive(peer, in)});
         me.wait(me.run(comm, [=](Rank r) { r.wait(ticket); }));
         me.wait(ticket);
       },
       {"waited for on queue"}},
      {"nobody waits for a batch",
       2,
       [](Rank me) {
         Slice in = slice(me), out = slice(me);
         me.start({send(1 - me.rank(), out), receive(1 - me.rank(), in)});
       },
       {"nobody waited", "backend_test.cpp"}},
      {"nobody waits for a closure",
       1,
       [](Rank me) {
         Rank comm = me.stream("comm");
         me.run(comm, [](Rank) {});
       },
       {"nobody waited", "comm"}},
      {"scratch outlives its closure",
       1,
       [](Rank me) {
         Rank comm = me.stream("comm");
         auto kept = std::make_shared<Slice>();
         me.wait(me.run(comm, [kept](Rank r) { *kept = r.allocate(4, DType::f32, kBuffer); }));
       },
       {"scratch"}},
      {"not a member",
       2,
       [](Rank me) {
         Rank none = me.split(-1, 0);
         (void)none.stream("comm");
       },
       {"not in this group"}},
      {"upload of the wrong length", 1, [](Rank me) { upload(me, slice(me), std::vector<float>{1}); }, {"upload"}},
  };
}

TEST(Misuse, IsExplained) {
  for (const Misuse& misuse : misuses()) {
    if (!has(misuse.ranks)) continue;
    SCOPED_TRACE(misuse.name);
    const Outcome outcome = run_on(misuse.ranks, [&](Rank me) {
      misuse.program(me);
      return Values{};
    });
    expect_failure(outcome, Verdict::usage, {"USAGE", "rank "});
    for (const char* word : misuse.words) EXPECT_NE(outcome.message.find(word), std::string::npos) << outcome.message;
  }
}

TEST(Misuse, OfRunItself) {
  EXPECT_THROW(run_on(0, [](Rank) { return Values{}; }), Error);
  const int available = testing::test_options().available_ranks;
  if (available == 0) return;
  EXPECT_THROW(run_on(available + 1, [](Rank) { return Values{}; }), Error);
  NEED_RANKS(2);
  RunOptions options = options_for(2);
  options.emulate = true;
  options.machine.levels.back().ranks = 1;  // all processes hear of it, also those that do not take part
  EXPECT_THROW(run(options, [](Rank) {}), Error);
}

// Failure -------------------------------------------------------------------------------------------------------------

/// A failed run leaves nothing behind: it fails a second time in the same words, and then a good run passes.
void expect_twice(int ranks, Verdict verdict, std::initializer_list<const char*> words,
                  const std::function<void(Rank)>& program) {
  for (int time = 0; time < 2; ++time) {
    const Outcome outcome = run_on(ranks, [&](Rank me) {
      program(me);
      return Values{};
    });
    expect_failure(outcome, verdict, words);
  }
  const Outcome good = run_on(ranks, [](Rank me) {
    Slice mine = filled(me, 5, static_cast<float>(me.rank())), theirs = empty_of(me, 5);
    if (me.size() > 1)
      me.exchange({send(next(me), mine), receive(previous(me), theirs)});
    else
      copy(me, theirs, mine);
    return Values{first(me, theirs)};
  });
  ASSERT_TRUE(good.passed()) << good.message;
  EXPECT_EQ(good.values[0], Values{double(ranks - 1)});
}

TEST(Failure, AnExceptionOnOneRankEndsAll) {
  NEED_RANKS(4);
  expect_twice(4, Verdict::fail, {"rank 2", "the third rank gives up"}, [](Rank me) {
    Slice a = filled(me, 100'000, 1), b = empty_of(me, 100'000);
    me.exchange({send(next(me), a), receive(previous(me), b)});
    if (me.rank() == 2) throw std::runtime_error("the third rank gives up");
    for (int i = 0; i < 3; ++i) me.exchange({send(next(me), a), receive(previous(me), b)});
  });
}

TEST(Failure, AnExceptionInAClosureEndsItsRank) {
  NEED_RANKS(2);
  expect_twice(2, Verdict::fail, {"rank 1", "comm", "in the closure"}, [](Rank me) {
    Rank comm = me.stream("comm");
    Slice a = filled(me, 10, 1), b = empty_of(me, 10);
    Ticket ticket = me.run(comm, [=](Rank r) {
      if (r.rank() == 1) throw std::runtime_error("no more");
      r.exchange({send(1, a), receive(1, b)});
    });
    me.wait(ticket);
  });
}

TEST(Failure, TodoIsNotImplemented) {
  expect_twice(1, Verdict::not_implemented, {"21.2", "write it"}, [](Rank) { todo("21.2", "write it"); });
}

TEST(Failure, SizesDiffer) {
  NEED_RANKS(2);
  expect_twice(2, Verdict::mismatch, {"MISMATCH", "rank 0 sends 8 fp32", "rank 1 receives 4 fp32"}, [](Rank me) {
    Slice a = filled(me, me.rank() == 0 ? 8 : 4, 1);
    if (me.rank() == 0)
      me.exchange({send(1, a)});
    else
      me.exchange({receive(0, a)});
  });
}

TEST(Failure, TypesDiffer) {
  NEED_RANKS(2);
  expect_twice(2, Verdict::mismatch, {"MISMATCH", "fp32", "int32"}, [](Rank me) {
    Slice a = me.allocate(8, me.rank() == 0 ? DType::f32 : DType::i32, kBuffer);
    if (me.rank() == 0)
      me.exchange({send(1, a)});
    else
      me.exchange({receive(0, a)});
  });
}

TEST(Failure, CollectivesDiffer) {
  NEED_RANKS(2);
  expect_twice(2, Verdict::mismatch, {"MISMATCH", "all_gather", "reduce_scatter"}, [](Rank me) {
    Slice a = filled(me, 8, 1), b = empty_of(me, 8);
    Scope region = me.region(me.rank() == 0 ? "all_gather" : "reduce_scatter", 32);
    me.exchange({send(1 - me.rank(), a), receive(1 - me.rank(), b)});
  });
}

TEST(Failure, SetUpCallsDiffer) {
  NEED_RANKS(3);
  expect_twice(3, Verdict::mismatch, {"MISMATCH", "set-up call 1", "split", "stream(\"comm\")"}, [](Rank me) {
    if (me.rank() == 1)
      (void)me.stream("comm");
    else
      (void)me.split(0, 0);
  });
}

TEST(Failure, UnreadMessages) {
  NEED_RANKS(2);
  RunOptions options = options_for(2);
  options.machine.eager_bytes = 1024;
  const Outcome outcome = run(options, Program([](Rank me) {
                                Slice a = filled(me, 4, 1);
                                if (me.rank() == 0) me.exchange({send(1, a), send(1, a)});
                                return Values{};
                              }));
  expect_failure(outcome, Verdict::unread, {"UNREAD", "rank 0", "rank 1", "1 more"});
}

TEST(Failure, DeadlockOfReceives) {
  NEED_RANKS(3);
  expect_twice(3, Verdict::deadlock, {"DEADLOCK", "backend_test.cpp", "rank 0", "receive"}, [](Rank me) {
    Slice a = filled(me, 4, 1), b = empty_of(me, 4);
    me.exchange({receive(previous(me), b)});  // all receive first
    me.exchange({send(next(me), a)});
  });
}

TEST(Failure, DeadlockWithARankThatHasEnded) {
  NEED_RANKS(2);
  expect_twice(2, Verdict::deadlock, {"DEADLOCK", "rank 0 waits for rank 1", "ended"}, [](Rank me) {
    Slice b = empty_of(me, 4);
    if (me.rank() == 0) me.exchange({receive(1, b)});
  });
}

TEST(Failure, DeadlockInAClosure) {
  NEED_RANKS(2);
  expect_twice(2, Verdict::deadlock, {"DEADLOCK", "comm"}, [](Rank me) {
    Rank comm = me.stream("comm");
    Slice b = empty_of(me, 4);
    me.wait(me.run(comm, [=](Rank r) { r.exchange({receive(1 - r.rank(), b)}); }));
  });
}

}  // namespace
}  // namespace lockstep
