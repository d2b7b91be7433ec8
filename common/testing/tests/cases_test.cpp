// Tests of the code that lab tests share: chunks, inputs with readable sums, and the function that runs all cases.
#include "common/testing/cases.hpp"

#include <fmt/format.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <stdexcept>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/error.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/inputs.hpp"
#include "common/testing/options.hpp"
#include "common/testing/regions.hpp"
#include "common/testing/watch.hpp"

namespace lockstep::testing {
namespace {

TEST(Chunks, CoverTheArrayInOrderAndDifferByAtMostOne) {
  for (int count : {1, 2, 3, 7, 8})
    for (std::size_t elements : {0u, 1u, 2u, 6u, 7u, 8u, 9u, 101u}) {
      std::size_t next = 0;
      for (int c = 0; c < count; ++c) {
        const ChunkRange chunk = chunk_range(elements, c, count);
        EXPECT_EQ(chunk.offset, next);
        EXPECT_LE(chunk.size, chunk_range(elements, 0, count).size);
        EXPECT_GE(chunk.size + 1, chunk_range(elements, 0, count).size);
        for (std::size_t i = 0; i < chunk.size; ++i) EXPECT_EQ(chunk_of(elements, next + i, count), c);
        next += chunk.size;
      }
      EXPECT_EQ(next, elements);
    }
}

TEST(Chunks, CountModuloTheirNumber) {
  for (int c = 0; c < 3; ++c)
    for (int turns : {-2, -1, 1, 5}) EXPECT_EQ(chunk_range(7, c + 3 * turns, 3).offset, chunk_range(7, c, 3).offset);
}

TEST(Inputs, DifferAndTheirSumsAreExactInFp32) {
  for (int ranks : {1, 3, 8}) {
    std::set<float> seen;
    for (int rank = 0; rank < ranks; ++rank)
      for (float value : inputs_of(rank, 31, ranks)) seen.insert(value);
    EXPECT_EQ(seen.size(), 31u * ranks);
    for (std::size_t i = 0; i < 31; ++i) {
      float sum = 0;  // in fp32, in reverse: the order does not matter
      for (int rank = ranks - 1; rank >= 0; --rank) sum += input_of(rank, i, ranks);
      EXPECT_EQ(sum, sum_of_inputs(i, ranks));
    }
  }
}

TEST(Inputs, WithASeedNobodyKnowsTheOthers) {
  if (!test_options().seed) GTEST_SKIP() << "run with --seed";
  int unusual = 0, differ = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const auto above = [](int r, std::size_t i) { return std::floor(input_of(r, i, 8) / 65536); };
    for (std::size_t i = 0; i < 31; ++i) {
      unusual += above(rank, i) != static_cast<double>(1 + i);
      differ += above(rank, i) != above((rank + 1) % 8, i);
    }
  }
  EXPECT_GT(unusual, 8 * 31 / 2);
  EXPECT_GT(differ, 8 * 31 / 2);
}

TEST(Inputs, WrongSumsAreRead) {
  const auto value = [](std::initializer_list<int> ranks, std::size_t element) {
    double sum = 0;
    for (int rank : ranks) sum += input_of(rank, element, 4);
    return sum;
  };
  const auto read = [](double v) { return explain_sum(v, 5, 20, 1, 4); };
  EXPECT_EQ(read(value({1}, 5)), "rank 1's own input: nothing was added to it");
  EXPECT_EQ(read(value({2}, 5)), "rank 2's input alone, rank 1's own is not in it");
  const auto copied = [](double v) { return explain_sum(v, 5, 20, 1, 4, Made::by_copying); };
  EXPECT_EQ(copied(value({1}, 5)), "rank 1's own input: nothing has replaced it");
  EXPECT_EQ(copied(value({2}, 5)), "rank 2's input");
  EXPECT_EQ(read(value({0, 1, 3}, 5)), "the sum of ranks 0, 1 and 3; rank 2 is missing");
  EXPECT_EQ(read(value({0, 1, 2, 3, 3}, 5)), "the sum of all ranks; rank 3 is counted 2 times");
  EXPECT_EQ(read(value({0, 1, 2, 3}, 9)), "the sum of all ranks, but of element 9");
  EXPECT_EQ(read(value({0, 1, 2, 3}, 5) / 4), "the sum divided by the number of ranks: an average");
  const double sum = value({0, 1, 2, 3}, 5), unit = std::exp2(std::floor(std::log2(sum)) - 7);  // 8 bits of significand
  EXPECT_EQ(read(unit * std::nearbyint(sum / unit)), "the sum of all ranks, rounded to bf16");
  EXPECT_EQ(read(0.5), "not a sum of inputs");
  EXPECT_EQ(read(0.0 / 0.0), "uninitialised memory (new memory is filled with NaN)");
}

TEST(Cases, RunSmallestFirstAndStopAtTheFirstThatFails) {
  std::vector<Case> judged;
  const CasePlan plan{.ranks = {4, 2}, .sizes = sizes_of({9, 3, 3})};
  const auto judge = [&judged](const Case& c, const Outcome&) -> std::string {
    judged.push_back(c);
    return c.ranks == 2 && c.size == 9 ? "element 4 is wrong" : "";
  };
  EXPECT_NONFATAL_FAILURE(run_cases([](Rank, const Case&) { return Values{}; }, judge, plan),
                          "with 2 ranks and 9 elements per rank:\nelement 4 is wrong\nsee it: ./lab view check");
  ASSERT_EQ(judged.size(), 2u);
  EXPECT_EQ(judged[0].size, 3u);
}

void judge_the_sum(const CaseProgram& program) {
  run_cases(program,
            [](const Case&, const Outcome& outcome) {
              return required_visits_to(outcome.ledgers[0], "sum", "around the sum").visits == 2 ? "" : "visited once";
            },
            {.ranks = {1}, .sizes = sizes_of({1})});
}

TEST(Cases, ARegionThatTheAnswerForgotIsASentenceAndVisitsOfAllQueuesCount) {
  const auto twice = [](Rank me, const Case&) {
    const auto visit = [](Rank queue) { Scope scope = queue.region("sum", 4); };
    visit(me);
    me.wait(me.run(me.stream("comm"), visit));
    return Values{};
  };
  judge_the_sum(twice);
  const auto forgot = [] { judge_the_sum([](Rank, const Case&) { return Values{}; }); };
  EXPECT_NONFATAL_FAILURE(forgot(), "the region \"sum\" was never opened");
  EXPECT_NONFATAL_FAILURE(forgot(), "open it around the sum");
}

TEST(Cases, CountTheirUnitInEnglish) {
  const auto wrong = [](const Case&, const Outcome&) -> std::string { return "wrong"; };
  const auto with = [&](std::size_t size, const char* unit) {
    run_cases([](Rank, const Case&) { return Values{}; }, wrong,
              {.ranks = {1}, .sizes = sizes_of({size}), .unit = unit});
  };
  EXPECT_NONFATAL_FAILURE(with(1, "microbatch"), "with 1 rank and 1 microbatch:");
  EXPECT_NONFATAL_FAILURE(with(5, "microbatch"), "with 1 rank and 5 microbatches:");
  EXPECT_NONFATAL_FAILURE(with(0, "element"), "with 1 rank and 0 elements:");
  EXPECT_NONFATAL_FAILURE(with(0, ""), "with 1 rank:\n");
  EXPECT_NONFATAL_FAILURE(with(2, "rank per node"), "with 1 rank and 2 ranks per node:");
  EXPECT_NONFATAL_FAILURE(with(2, "feature per rank"), "with 1 rank and 2 features per rank:");
  EXPECT_NONFATAL_FAILURE(with(2, "position of a chunk"), "with 1 rank and 2 positions of a chunk:");
}

TEST(Cases, WhatAnEarlierPartDoesWrongComesFirst) {
  const auto with = [](const std::string& cause) {
    run_cases([](Rank, const Case&) { return Values{}; }, [](const Case&, const Outcome&) { return "wrong"; },
              {.ranks = {1}, .sizes = sizes_of({1}), .cause = [=] { return cause; }});
  };
  EXPECT_NONFATAL_FAILURE(with("21.7a first: not divided."), "per rank:\n21.7a first: not divided. Seen here: wrong\n");
  EXPECT_NONFATAL_FAILURE(with(""), "per rank:\nwrong\n");
}

TEST(Cases, ThatAreNumberedAreNotCounted) {
  const auto wrong = [](const Case&, const Outcome&) -> std::string { return "wrong"; };
  const auto numbered = [&] {
    run_cases([](Rank, const Case&) { return Values{}; }, wrong,
              {.ranks = {1}, .sizes = sizes_of({3}), .which = "history"});
  };
  EXPECT_NONFATAL_FAILURE(numbered(), "with 1 rank, history 3:");
}

TEST(Cases, ASendThatNeedsABufferIsADeadlock) {
  const auto send_first = [](Rank me, const Case& c) {
    Slice mine = me.allocate(c.size, DType::f32, Category::buffer),
          theirs = me.allocate(c.size, DType::f32, Category::buffer);
    me.exchange({send(1 - me.rank(), mine)});
    me.exchange({receive(1 - me.rank(), theirs)});
    return Values{};
  };
  const CasePlan plan{.ranks = {2}, .sizes = sizes_of({1})};
  EXPECT_NONFATAL_FAILURE(run_cases(
                              send_first, [](const Case&, const Outcome&) { return ""; }, plan),
                          "DEADLOCK");
}

// Main reads a value that another stream writes. Main computes long enough for the other to finish first, most of the
// time.
TEST(Cases, AResultThatDependsOnLuckFailsAndSaysSo) {
  const auto no_wait = [](Rank me, const Case& c) {
    Rank comm = me.stream("comm");
    Slice x = me.allocate(c.size, DType::f32, Category::buffer),
          work = me.allocate(1 << 12, DType::f32, Category::buffer);
    fill(me, x, 0);
    Ticket ticket = me.run(comm, [x](Rank queue) { fill(queue, x, 1); });
    fill(me, work, 0);
    const Values seen{to_host(me, x)[0]};
    me.wait(ticket);
    return seen;
  };
  const auto judge = [](const Case&, const Outcome& outcome) {
    return outcome.values[0][0] == 1 ? "" : "the closure's result was not there";
  };
  CasePlan plan{.ranks = {1}, .sizes = sizes_of({1}), .queues = true};
  EXPECT_NONFATAL_FAILURE(run_cases(no_wait, judge, plan), "RACE");
  plan.adjust = [](const Case&, RunOptions& options) { options.check_races = false; };
  EXPECT_NONFATAL_FAILURE(run_cases(no_wait, judge, plan), "the result depends on timing, so a wait is missing");
}

/// Simulates these options on the command line while it lives.
class AskedFor {
 public:
  AskedFor(std::optional<int> ranks, std::optional<std::size_t> size, const std::string& trace_file = "") {
    options_.ranks = ranks;
    options_.size = size;
    options_.trace = !trace_file.empty();
    options_.trace_file = trace_file;
  }
  ~AskedFor() { options_ = before_; }

 private:
  TestOptions& options_ = const_cast<TestOptions&>(test_options());
  const TestOptions before_ = options_;
};

/// Returns the cases of `plan` that run, "ranks×size …".
std::string cases_of(const CasePlan& plan) {
  std::string ran;
  const auto judge = [&ran](const Case& c, const Outcome&) {
    ran += fmt::format("{}{}×{}", ran.empty() ? "" : " ", c.ranks, c.size);
    return "";
  };
  run_cases([](Rank, const Case&) { return Values{}; }, judge, plan);
  return ran;
}

/// Returns the cases of `plan` that run, or the reason why there are none.
std::string cases_or_reason(const CasePlan& plan) {
  ::testing::TestPartResultArray results;
  ::testing::ScopedFakeTestPartResultReporter skips(
      ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
  std::string ran = cases_of(plan);
  if (results.size() == 0) return ran;
  std::string reason = results.GetTestPartResult(0).message();
  if (reason.ends_with('\n')) reason.pop_back();  // since GoogleTest 1.13
  return reason;
}

TEST(Cases, OfAPlanOnlyItsOwnCanBeAskedFor) {
  const CasePlan own{.ranks = {4, 2}, .sizes = sizes_of({9, 3})}, sweep, sizes{.sizes = sizes_of({9})};
  {
    const AskedFor ranks(3, {});
    EXPECT_EQ(cases_or_reason(own), "this test's ranks are 2, 4");
    EXPECT_EQ(cases_or_reason(sizes), "3×9");
  }
  {
    const AskedFor ranks(4, {});
    EXPECT_EQ(cases_or_reason(own), "4×3 4×9");
  }
  {
    const AskedFor both(6, 50);
    EXPECT_EQ(cases_or_reason(sweep), "6×50");
    EXPECT_EQ(cases_or_reason({.ranks = {6, 8}}), "6×50");
    EXPECT_EQ(cases_or_reason(sizes), "with 6 ranks this test's sizes are 9");
    EXPECT_EQ(cases_or_reason({.ranks = {2}, .sizes = sizes_of({9}), .together = true}), "2×9");
  }
  const AskedFor size({}, 9);
  EXPECT_EQ(cases_or_reason(own), "2×9 4×9");
}

void fill_something() {
  run_cases(
      [](Rank me, const Case& c) {
        fill(me, me.allocate(c.size, DType::f32, Category::buffer), 1);
        return Values{};
      },
      [](const Case&, const Outcome&) { return ""; });
}

TEST(Cases, ATimelineIsWrittenToTheFileThatWasNamed) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("lockstep_cases_{}", getpid());
  const std::string file = folder / "events.json";
  const AskedFor trace(2, 3, file);
  fill_something();
  std::string text(20, ' ');
  std::ifstream(file).read(text.data(), 20);
  EXPECT_TRUE(text.starts_with("{\"displayTimeUnit\"")) << text;
  std::filesystem::remove_all(folder);
}

TEST(Cases, OfManyTimelinesThoseThatWentWrongAreDrawn) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("lockstep_drawn_{}", getpid());
  const AskedFor trace({}, {}, folder.string() + "/");
  const auto drawn = [](const CaseJudge& judge) {
    const auto program = [](Rank me, const Case& c) {
      fill(me, me.allocate(c.size, DType::f32, Category::buffer), 1);
      return Values{};
    };
    ::testing::internal::CaptureStdout();
    run_cases(program, judge, {.ranks = {2}, .sizes = sizes_of({3, 4})});
    return ::testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(drawn([](const Case&, const Outcome&) { return ""; }), "");
  ::testing::TestPartResultArray failures;
  std::string text;
  {
    ::testing::ScopedFakeTestPartResultReporter fakes(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    text = drawn([](const Case& c, const Outcome&) { return c.size == 4 ? "wrong" : ""; });
  }
  EXPECT_NE(text.find("size 4:\n"), text.npos) << text;
  EXPECT_EQ(text.find("size 3:\n"), text.npos) << text;
  std::filesystem::remove_all(folder);
}

/// Ends as `do_it` does, and says what ./lab check would hear.
void watched(const std::function<void()>& do_it) {
  say_what_runs();
  do_it();
}

TEST(WatchDeathTest, WhatRunsIsSaidWithItsLastCall) {
  const auto endless = [] {
    RunOptions options;
    options.ranks = 2;
    run(options, [](Rank me) {
      fill(me, me.allocate(3, DType::f32, Category::buffer), 1);
      if (me.rank() == 1) raise(SIGALRM), _exit(3);  // at some moment of its computing
      return Values{};
    });
  };
  EXPECT_EXIT(watched(endless), ::testing::ExitedWithCode(3), "lockstep-still: [0-9]+\t1\t.*cases_test.cpp:[0-9]+\t");
  EXPECT_EXIT(watched([] { raise(SIGALRM), _exit(3); }), ::testing::ExitedWithCode(3), "lockstep-still: [0-9]+\t-1\t");
}

void alarm_every(int microseconds) {
  const itimerval every{.it_interval = {.tv_sec = 0, .tv_usec = microseconds},
                        .it_value = {.tv_sec = 0, .tv_usec = microseconds}};
  setitimer(ITIMER_REAL, &every, nullptr);
}

TEST(WatchDeathTest, BetweenTwoRanksItIsTheLastCallOfTheOneThatRanLast) {
  const auto exchange = [] {
    RunOptions options;
    options.ranks = 2;
    run(options, [](Rank me) {
      Slice out = me.allocate(1, DType::f32, Category::buffer), in = me.allocate(1, DType::f32, Category::buffer);
      fill(me, out, 1);
      for (int step = 0; step < 20'000; ++step) {
        me.exchange({send(1 - me.rank(), out), receive(1 - me.rank(), in)});
        if (me.rank() == 0 && step == 10) alarm_every(200);
        if (me.rank() == 0 && step == 19'990) alarm_every(0);
      }
      return Values{};
    });
    _exit(3);
  };
  EXPECT_EXIT(watched(exchange), ::testing::ExitedWithCode(3),
              "^(lockstep-still: [0-9]+\t[01]\t[^\n]*cases_test.cpp:[0-9]+\t[^\n]*\n)+$");
}

TEST(WatchDeathTest, ACrashSaysItsCalls) {
  EXPECT_EXIT(watched([] { raise(SIGSEGV); }), ::testing::KilledBySignal(SIGSEGV),
              "lockstep-died: \t\t\n(.*\n)*.*cases_test\\(\\+0x[0-9a-f]+\\)\\[");
}

TEST(WatchDeathTest, ACrashSaysItsCase) {
  const auto crash = [] {
    run_cases(
        [](Rank, const Case& c) {
          if (c.size == 2) raise(SIGFPE);
          return Values{};
        },
        [](const Case&, const Outcome&) { return ""; }, {.ranks = {2}, .sizes = sizes_of({1, 2})});
  };
  EXPECT_EXIT(watched(crash), ::testing::KilledBySignal(SIGFPE),
              "lockstep-died: \twith 2 ranks and 2 elements per rank\t--ranks 2 --size 2");
  const auto over = [&] {
    run_cases([](Rank, const Case&) { return Values{}; }, [](const Case&, const Outcome&) { return ""; });
    raise(SIGFPE);
  };
  EXPECT_EXIT(watched(over), ::testing::KilledBySignal(SIGFPE), "lockstep-died: \t\t\n");
}

/// In words that the compiler cannot turn into a loop.
[[gnu::noinline]] int calls_itself(int depth) {
  volatile int here = depth;
  return here < 0 ? 0 : calls_itself(here / 2 + 1) + here;
}

TEST(WatchDeathTest, ACrashSaysWhy) {
  const auto divides = [] {  // as the processor would say; some give 0 for 1 / 0
    siginfo_t info{};
    info.si_code = FPE_INTDIV;
    syscall(SYS_rt_sigqueueinfo, getpid(), SIGFPE, &info);
  };
  EXPECT_EXIT(watched(divides), ::testing::KilledBySignal(SIGFPE), "lockstep-died: An integer was divided by 0, ");
  const auto recurses = [] {
    const rlimit small{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    setrlimit(RLIMIT_STACK, &small);
    calls_itself(3);
  };
  EXPECT_EXIT(watched(recurses), ::testing::KilledBySignal(SIGSEGV), "lockstep-died: Endless recursion");
}

// For suite.cases.chosen: an exercise of two parts, of which a filter chooses one.
TEST(Lab1_1a, Passes) {}
TEST(Lab1_1b, Passes) {}

// For suite.cases.thrown: what was thrown, where no rank calls the answer.
TEST(Lab1_2, DISABLED_Throws) { throw std::out_of_range("oops"); }

TEST(Cases, ATimelineThatCannotBeWrittenIsNotSaidToBe) {
  const AskedFor trace(2, 3, "/dev/null/trace.json");
  EXPECT_NONFATAL_FAILURE(fill_something(), "/dev/null/trace.json");
}

}  // namespace
}  // namespace lockstep::testing
