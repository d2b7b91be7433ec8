// Replays: of programs drawn at random, as they were, and with costs taken away, against the simulator itself on a
// machine that has not got these costs.
#include <gtest/gtest.h>

#include <cmath>

#include "common/analysis/diff.hpp"
#include "common/analysis/why.hpp"
#include "tools/analyse/random_program_testing.hpp"

namespace lockstep::analysis {
namespace {

double seconds_on(RunOptions options, const Machine& machine, const RandomProgram& program) {
  options.machine = machine;
  options.trace = false;
  return run(options, program).check().seconds;
}

TEST(Replay, IsTheRunAgain) {
  for (int ranks : {1, 2, 3, 5, 8})
    for (unsigned seed = 1; seed <= 20; ++seed) {
      const Outcome outcome = run(traced(ranks), RandomProgram(seed, true));
      outcome.check();
      for (const char* step : {"", "step"}) {
        const Replay replayed = replay(make_graph(outcome.trace, step));
        if (*step) continue;
        ASSERT_NEAR(replayed.seconds / outcome.seconds, 1, 1e-9) << ranks << " ranks, seed " << seed;
      }
    }
}

TEST(Replay, TheCriticalPathHasNoGaps) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = run(traced(4), RandomProgram(seed, true));
    const Replay replayed = replay(make_graph(outcome.check().trace, ""));
    double at = 0;
    for (const Segment& segment : replayed.path) {
      ASSERT_NEAR(segment.begin, at, 1e-12 + 1e-9 * at) << "seed " << seed;
      ASSERT_GE(segment.end, segment.begin - 1e-15);
      at = segment.end;
    }
    EXPECT_DOUBLE_EQ(at, replayed.seconds);
  }
}

// The replay predicts what the simulator does on a machine without the cost, which is not the same as subtracting it.
TEST(Replay, WithoutACostIsARunWithoutIt) {
  int saved = 0;
  double errors = 0;  // mean
  for (int ranks : {2, 3, 5, 8})
    for (unsigned seed = 1; seed <= 20; ++seed) {
      const RandomProgram program(seed, true);
      RunOptions options = traced(ranks);
      const Outcome outcome = run(options, program);
      const Graph graph = make_graph(outcome.check().trace, "");
      Machine free = options.machine;
      free.levels[0].latency = 0;
      free.levels[0].bytes_per_second = HUGE_VAL;
      const double without_messages = replay(graph, without(Cost::communication)).seconds;
      ASSERT_NEAR(without_messages / seconds_on(options, free, program), 1, 1e-9) << ranks << " ranks, seed " << seed;
      saved += without_messages < 0.99 * outcome.seconds;
      // Ports that were busy are free at other moments without launches: close, and no more than that.
      Machine quick = options.machine;
      quick.launch = 0;
      const double without_launch = replay(graph, without(Cost::launch)).seconds;
      const double error = without_launch / seconds_on(options, quick, program) - 1;
      ASSERT_NEAR(error, 0, 0.25) << ranks << " ranks, seed " << seed;
      errors += std::abs(error) / 80;
    }
  EXPECT_LT(errors, 0.02);
  EXPECT_GT(saved, 40);
}

TEST(Replay, LaunchesAreTakenAwayExactlyWhereNoPortIsBusy) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    RunOptions options = traced(3);
    options.machine.levels[0].bytes_per_second = HUGE_VAL;
    const RandomProgram program(seed, false);
    const Graph graph = make_graph(run(options, program).check().trace, "");
    Machine quick = options.machine;
    quick.launch = 0;
    ASSERT_NEAR(replay(graph, without(Cost::launch)).seconds / seconds_on(options, quick, program), 1, 1e-9) << seed;
  }
}

// A measured run: unrecorded time between two operations is the host's, or loading data.
TEST(Why, HostTimeAndLoadingDataAreSeenInMeasuredRuns) {
  for (const bool loads : {true, false}) {
    Trace trace{.queues = {"main"}};
    for (int step = 0; step < 2; ++step) {
      const double at = step * 12e-3;
      const auto first = static_cast<std::uint64_t>(3 * step + 1);
      const auto add = [&](double from, double to, std::uint64_t position) {
        trace.events.push_back({.what = TraceCompute{},
                                .name = "matmul",
                                .begin = at + from,
                                .end = at + to,
                                .first = position,
                                .last = position});
      };
      add(4e-3, 8e-3, first);
      add(8e-3, 9e-3, first + 1);
      add(9.5e-3, 10e-3, first + 2);
      const auto region = [&](const char* name, double from, double to, std::uint64_t last) {
        trace.events.push_back({.what = TraceRegion{.phase = true},
                                .name = name,
                                .begin = at + from,
                                .end = at + to,
                                .first = first,
                                .last = last});
      };
      if (loads) region("data", 0, 3.5e-3, first - 1);
      region("step", 0, 10e-3, first + 2);
    }
    const Why found = why(trace);
    EXPECT_NEAR(found.seconds, 10e-3, 1e-9);
    EXPECT_EQ(found.limit, loads ? Cost::data : Cost::launch) << found.sentence;
    EXPECT_NEAR(found.gain(Cost::data).gained, loads ? 0.35 : 0, 1e-9);
    EXPECT_NEAR(found.gain(Cost::launch).gained, loads ? 0.1 : 0.45, 1e-9);
  }
}

Trace of(int ranks, std::vector<TraceEvent> events) {
  Trace trace{.queues = {"main"}, .events = std::move(events)};
  trace.events.push_back({.rank = ranks - 1, .name = "last", .begin = 0, .end = 1});
  return trace;
}

TEST(Why, NothingGainedIsNotLessThanNothing) {
  analysis::Why why{.ranks = 1, .steps = 1, .recorded_seconds = 1, .seconds = 1, .use = {{}}};
  why.gains = {{analysis::Cost::bubble, 1, -1e-7}, {analysis::Cost::data, 1.004, -0.004}};
  const std::string text = format_why(why);
  EXPECT_EQ(text.find("-0.0%"), text.npos) << text;
  EXPECT_NE(text.find("-0.4%"), text.npos) << "a replay may take longer, and says so: " << text;
}

TEST(Diff, RanksDifferencesAndCountsWhatIsOnlyInOne) {
  const auto event = [](const char* name, double begin, double end) {
    return TraceEvent{.what = TraceCompute{}, .name = name, .begin = begin, .end = end};
  };
  const Trace a = of(2, {event("add", 0, 1), event("matmul", 1, 3), event("add", 3, 4), event("gelu", 4, 5)});
  const Trace b = of(2, {event("add", 0, 1.5), event("matmul", 1.5, 8), event("add", 8, 9), event("copy", 9, 10)});
  const Diff d = diff(a, b);
  ASSERT_EQ(d.differences.size(), 5u);
  EXPECT_EQ(d.differences[0].name, "matmul");
  EXPECT_DOUBLE_EQ(d.differences[0].seconds(), 4.5);
  const CategoryDifference& arithmetic = d.categories[0];
  EXPECT_DOUBLE_EQ(arithmetic.seconds_a, 6);
  EXPECT_DOUBLE_EQ(arithmetic.seconds_b, 11);
  EXPECT_DOUBLE_EQ(arithmetic.only_a, 1);
  EXPECT_DOUBLE_EQ(arithmetic.only_b, 1);
  for (const Difference& x : d.differences)
    if (x.name == "add") {
      EXPECT_EQ(x.pairs, 2);
      EXPECT_EQ(x.occurrence, 1);
      EXPECT_DOUBLE_EQ(x.most, 0.5);
    }
  EXPECT_THROW(diff(a, of(3, {event("add", 0, 1)})), Error);
  Trace other{.queues = {"main"}, .events = {event("x", 0, 1), event("y", 0, 1)}};
  other.events[1].rank = 1;
  EXPECT_THROW(diff(a, other), Error);
}

}  // namespace
}  // namespace lockstep::analysis
