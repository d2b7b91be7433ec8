// Failed runs: their messages, and that they leave nothing behind.
#include <gtest/gtest-spi.h>

#include <cmath>

#include "common/backends/tests/support.hpp"
#include "common/support/tests/refusal_testing.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

/// Checks that a failed run leaves nothing behind: it fails again with the same message, and then a good run passes.
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
  expect_twice(4, Verdict::fail, {"rank 2", "the third rank gives up, after its call at failure_test.cpp:"},
               [](Rank me) {
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

TEST(Failure, MemoryThatIsNotThereIsNamedWithItsLine) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer itself ends a program that asks for as much";
#endif
  expect_twice(1, Verdict::fail, {"out of memory: 4503599627370496 bytes for gradients", "at failure_test.cpp:"},
               [](Rank me) { (void)me.allocate(std::size_t{1} << 50, DType::f32, Category::gradient); });
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
  expect_twice(3, Verdict::deadlock, {"DEADLOCK", "failure_test.cpp", "rank 0", "receive"}, [](Rank me) {
    Slice a = filled(me, 4, 1), b = empty_of(me, 4);
    me.exchange({receive(previous(me), b)});  // all receive first
    me.exchange({send(next(me), a)});
  });
}

TEST(Failure, DeadlockNamesTheMessageOfItsBatch) {
  NEED_RANKS(2);
  if (std::string_view(backend_name()) == "nccl") GTEST_SKIP() << "NCCL does not say how far a group of its calls is";
  expect_twice(2, Verdict::deadlock, {"DEADLOCK", "message 2 of this batch from it"}, [](Rank me) {
    Slice a = filled(me, 4, 1), b = empty_of(me, 4);
    if (me.rank() == 0) {
      me.exchange({send(1, a)});
      me.exchange({receive(1, a)});
    } else {
      me.exchange({receive(0, a), receive(0, b)});
    }
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

TEST(Failure, OptionsThatNoRunCanHave) {
  if (std::string_view(backend_name()) != "mpi") GTEST_SKIP() << "these are MPI's";
  const auto refused = [](double timeout_seconds, bool emulate, double scale) {
    RunOptions options = options_for(1);
    options.timeout_seconds = timeout_seconds;
    options.emulate = emulate;
    options.emulate_scale = scale;
    EXPECT_THROW((void)run(options, [](Rank) {}), Error) << timeout_seconds << " " << scale;
  };
  for (const double timeout_seconds : {0.0, -1.0, std::nan("")}) refused(timeout_seconds, false, 1);
  for (const double scale : {0.0, -1.0, std::nan(""), 1e30}) refused(1, true, scale);
}

TEST(Failure, ACaseFailsOnEveryProcess) {
  ::testing::TestPartResultArray failures;  // of this process: if they differ, so would the following runs
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    testing::run_cases([](Rank, const testing::Case&) { return Values{}; },
                       [](const testing::Case&, const Outcome&) { return std::string("wrong"); }, {.ranks = {1}});
  }
  EXPECT_EQ(failures.size(), 1);
}

TEST(Failure, ProcessesThatCallRunWithDifferentRanks) {
  if (testing::test_options().available_ranks < 2) GTEST_SKIP() << "needs 2 processes";
  if (std::string_view(backend_name()) != "mpi") GTEST_SKIP() << "NCCL's processes meet otherwise";
  const std::string said = refusal([] { (void)run_on(is_judge() ? 2 : 1, [](Rank) { return Values{}; }); });
  EXPECT_NE(said.find("with ranks = 1 and another with ranks = 2"), std::string::npos) << said;
}

}  // namespace
}  // namespace lockstep
