// Messages: their content, their order, and concurrent work. The tests in this folder are linked once with each
// backend. On MPI, all processes run every test together and get the same outcome.
#include "common/backends/tests/support.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

TEST(Messages, GoRoundARing) {
  for (int p : {2, 3, 8}) {
    if (!testing::has_ranks(p)) continue;
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
      me.wait(last);  // and the batch before it
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

}  // namespace
}  // namespace lockstep
