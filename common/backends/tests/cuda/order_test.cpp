// Mistakes that only an asynchronous backend can make: missing order between streams, memory freed while the GPU still
// uses it, sends that complete before they are received. On the fake GPU, streams run in an order drawn from a seed and
// freed memory is poisoned, so a missing wait shows as a wrong value.
#include <algorithm>
#include <optional>

#include "common/backends/tests/support.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

double sum_of(Rank me, const Slice& slice) {
  double sum = 0;
  for (float value : to_host(me, slice)) sum += value;
  return sum;
}

TEST(Order, ABatchBeginsWhenTheOneBeforeHasEnded) {
  const Outcome outcome = run(options_for(4), Program([](Rank me) {
                                // The next batch forwards what arrives, without a wait in between.
                                Slice data = filled(me, 1000, static_cast<float>(me.rank()));
                                Ticket last;
                                if (me.rank() > 0) last = me.start({receive(me.rank() - 1, data)});
                                if (me.rank() < 3) last = me.start({send(me.rank() + 1, data)});
                                me.wait(last);
                                return Values{sum_of(me, data)};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (const Values& values : outcome.values) EXPECT_EQ(values, Values{0});
}

TEST(Order, AReceiveComesAfterTheSendBefore) {
  const Outcome outcome = run(options_for(3), Program([](Rank me) {
                                // Rank 0 receives into memory that rank 1 still reads. Nothing orders ranks 1 and 2.
                                Slice data = filled(me, 5000, static_cast<float>(me.rank() + 1));
                                Ticket last;
                                if (me.rank() == 0) {
                                  me.start({send(1, data)});
                                  last = me.start({receive(2, data)});
                                } else if (me.rank() == 1) {
                                  for (int i = 0; i < 20; ++i) fill(me, data, -1);
                                  last = me.start({receive(0, data)});
                                } else {
                                  last = me.start({send(0, data)});
                                }
                                me.wait(last);
                                return Values{sum_of(me, data)};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], Values{15000});
  EXPECT_EQ(outcome.values[1], Values{5000});
}

TEST(Order, NewMemoryIsPoisonedBeforeItIsReceivedInto) {
  const Outcome outcome = run(options_for(2), Program([](Rank me) {
                                Slice mine = filled(me, 3000, 1);
                                std::vector<Slice> all;
                                for (int i = 0; i < 5; ++i) {
                                  all.push_back(empty_of(me, 3000));  // nothing else happens on the queue
                                  me.exchange({send(1 - me.rank(), mine), receive(1 - me.rank(), all.back())});
                                }
                                Values seen;
                                for (const Slice& each : all) seen.push_back(sum_of(me, each));
                                return seen;
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (const Values& values : outcome.values) EXPECT_EQ(values, Values(5, 3000));
}

TEST(Order, ASendReadsWhatWasUploadedBefore) {
  const Outcome outcome = run(options_for(2), Program([](Rank me) {
                                Slice mine = filled(me, 3000, 0);
                                std::vector<Slice> all;
                                for (int i = 0; i < 4; ++i) all.push_back(filled(me, 3000, 0));
                                for (int i = 0; i < 4; ++i) {
                                  upload(me, mine, std::vector<float>(3000, static_cast<float>(i)));
                                  me.exchange({send(1 - me.rank(), mine), receive(1 - me.rank(), all[i])});
                                }
                                Values seen;
                                for (const Slice& each : all) seen.push_back(sum_of(me, each));
                                return seen;
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (const Values& values : outcome.values) EXPECT_EQ(values, (Values{0, 3000, 6000, 9000}));
}

TEST(Order, ASendReadsWhatTheQueueWroteBefore) {
  const Outcome outcome = run(options_for(3), Program([](Rank me) {
                                Slice mine = filled(me, 500, 1), theirs = empty_of(me, 500);
                                for (int step = 0; step < 10; ++step) {
                                  scale(me, mine, 2);
                                  me.exchange({send(next(me), mine), receive(previous(me), theirs)});
                                  copy(me, mine, theirs);
                                  fill(me, theirs, -1);  // after it was read, before it is written again
                                }
                                return Values{sum_of(me, mine)};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (const Values& values : outcome.values) EXPECT_EQ(values, Values{500 * 1024});
}

TEST(Order, AReceiverMayBeLate) {
  const Outcome outcome = run(options_for(2), Program([](Rank me) {
                                Slice data = filled(me, 300, static_cast<float>(me.rank() + 1)), in = empty_of(me, 300);
                                if (me.rank() == 0) {
                                  me.exchange({send(1, data)});
                                  fill(me, data, 9);  // not before rank 1 has read it
                                } else {
                                  for (int i = 0; i < 20; ++i) fill(me, in, static_cast<float>(i));
                                  me.exchange({receive(0, in)});
                                }
                                return Values{sum_of(me, me.rank() == 0 ? data : in)};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], Values{2700});
  EXPECT_EQ(outcome.values[1], Values{300});
}

TEST(Order, ThousandsOfBatchesWithoutAWait) {
  constexpr int kBatches = 3000;
  const Outcome outcome = run(options_for(2), Program([](Rank me) {
                                Slice out = filled(me, 8, 1), in = empty_of(me, 8);
                                Ticket last;
                                for (int i = 0; i < kBatches; ++i)
                                  last = me.start({send(1 - me.rank(), out), receive(1 - me.rank(), in)});
                                me.wait(last);
                                return Values{sum_of(me, in)};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], Values{8});
  EXPECT_EQ(outcome.messages, 2u * kBatches);
  EXPECT_GT(outcome.ledgers[0].queues[0].transferring, 0);
}

TEST(Order, ClosuresSeeWhatMainDidBeforeAndMainWhatTheyDid) {
  const Outcome outcome = run(options_for(2), Program([](Rank me) {
                                Rank comm = me.stream("comm");
                                Slice data = filled(me, 400, 0), one = filled(me, 400, 1);
                                for (int step = 0; step < 10; ++step) {
                                  add(me, data, one);
                                  Ticket ticket = me.run(comm, [=](Rank r) {
                                    Slice in = r.allocate(400, DType::f32, kBuffer);
                                    r.exchange({send(1 - r.rank(), data), receive(1 - r.rank(), in)});
                                    add(r, data, in);
                                  });
                                  me.wait(ticket);
                                }
                                return Values{sum_of(me, data)};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  // x ← 2 (x + 1), ten times from 0.
  for (const Values& values : outcome.values) EXPECT_EQ(values, Values{400 * 2046});
}

/// Freed memory is allocated again and written at once, so a late reader sees wrong values.
TEST(Release, ComesAfterTheQueuesThatUsedIt) {
  const Outcome outcome =
      run(options_for(1), Program([](Rank me) {
            Rank comm = me.stream("comm");
            Slice total = filled(me, 2000, 0);
            std::optional<Ticket> last;
            for (int step = 0; step < 20; ++step) {
              Slice lent = filled(me, 2000, 1);
              // The closure holds the last handle and drops it while main's stream is far behind.
              last = me.run(comm, [total, lent = std::optional<Slice>(std::move(lent))](Rank r) mutable {
                for (int i = 0; i < 5; ++i) add(r, total, *lent);
                lent.reset();
              });
              Slice other = filled(me, 2000, 1000);
            }
            me.wait(*last);
            return Values{sum_of(me, total)};
          }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  EXPECT_EQ(outcome.values[0], Values{2000 * 100});
  EXPECT_EQ(outcome.ledgers[0].memory.live_of(kBuffer), 0u);
}

TEST(Release, OfScratchComesAfterItsTransfers) {
  const Outcome outcome = run(options_for(3), Program([](Rank me) {
                                Rank comm = me.stream("comm");
                                Slice total = filled(me, 700, static_cast<float>(me.rank()));
                                Ticket last;
                                for (int step = 0; step < 6; ++step)
                                  last = me.run(comm, [total](Rank r) {
                                    Slice out = r.allocate(700, DType::f32, kBuffer);
                                    copy(r, out, total);
                                    {
                                      Slice in = r.allocate(700, DType::f32, kBuffer);
                                      r.exchange({send(next(r), out), receive(previous(r), in)});
                                      copy(r, total, in);
                                    }
                                    out = Slice();
                                    Slice again = r.allocate(700, DType::f32, kBuffer);
                                    fill(r, again, 99);
                                  });
                                me.wait(last);
                                return Values{sum_of(me, total)};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (int r = 0; r < 3; ++r) EXPECT_EQ(outcome.values[r], Values{700.0 * r});  // six steps round a ring of three
}

/// Up to eager_bytes, a send completes without its receive, and the sender may change its memory.
TEST(Eager, SendsKeepWhatWasSent) {
  RunOptions options = options_for(2);
  options.machine.eager_bytes = 400;
  const Outcome outcome = run(options, Program([](Rank me) {
                                Slice a = filled(me, 100, 1), b = filled(me, 100, 2), in = empty_of(me, 100);
                                me.exchange({send(1 - me.rank(), a)});  // both send first
                                fill(me, a, 7);
                                me.exchange({send(1 - me.rank(), b)});
                                fill(me, b, 8);
                                me.exchange({receive(1 - me.rank(), in)});
                                const double first = sum_of(me, in);
                                me.exchange({receive(1 - me.rank(), in)});
                                return Values{first, sum_of(me, in)};
                              }));
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  for (const Values& values : outcome.values) EXPECT_EQ(values, (Values{100, 200}));
}

TEST(Eager, LongerSendsWait) {
  RunOptions options = options_for(2);
  options.machine.eager_bytes = 400;
  const Outcome outcome = run(options, [](Rank me) {
    Slice a = filled(me, 101, 1), in = empty_of(me, 101);
    me.exchange({send(1 - me.rank(), a)});
    me.exchange({receive(1 - me.rank(), in)});
  });
  EXPECT_EQ(to_string(outcome.verdict), "DEADLOCK");
  EXPECT_NE(outcome.message.find("above 400 bytes"), std::string::npos) << outcome.message;
}

}  // namespace
}  // namespace lockstep
