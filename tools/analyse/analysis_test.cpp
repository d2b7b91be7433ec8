// Replays: of programs drawn at random, as they were, and with costs taken away, against the simulator itself on a
// machine that has not got these costs.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "common/analysis/diff.hpp"
#include "common/analysis/read_trace.hpp"
#include "common/analysis/why.hpp"
#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::analysis {
namespace {

/// The same calls on every rank; only how much arithmetic there is differs.
class RandomProgram {
 public:
  RandomProgram(unsigned seed, bool contention) : seed_(seed), contention_(contention) {}

  void operator()(Rank me) const {
    std::mt19937 shared(seed_), own(seed_ * 1000 + static_cast<unsigned>(me.rank()) + 1);
    Rank comm = me.stream("comm");
    Rank half = me.split(me.rank() % 2, me.rank());
    Slice work = me.allocate(1 << 20, DType::f32, Category::buffer);
    Slice out = me.allocate(1 << 16, DType::f32, Category::buffer),
          in = me.allocate(1 << 16, DType::f32, Category::buffer);
    Slice main_out = me.allocate(1 << 16, DType::f32, Category::buffer),
          main_in = me.allocate(1 << 16, DType::f32, Category::buffer);
    for (int step = 0; step < 3; ++step) {
      auto region = me.region("step");
      Ticket ticket;
      for (int i = 0; i < 12; ++i) {
        fill(me, work.cut(0, own() % (1 << 20)), 0);
        const std::size_t count = shared() % 2 ? shared() % 1000 : shared() % (1 << 16);  // eager, or maybe not
        const int distance = 1 + static_cast<int>(shared() % 2);
        switch (shared() % 4) {
          case 0:
            me.wait(ticket);
            ticket = me.run(comm, [=](Rank queue) { ring(queue, distance, out.cut(0, count), in.cut(0, count)); });
            break;
          case 1: ring(me, distance, main_out.cut(0, count), main_in.cut(0, count)); break;
          case 2:
            if (!contention_)
              ring(me, 1, main_out.cut(0, count), main_in.cut(0, count));
            else if (half.size() > 1)
              ring(half, 1, main_out.cut(0, count), main_in.cut(0, count));
            break;
          default: late(me, work, main_out.cut(0, count), main_in.cut(0, count)); break;
        }
      }
      me.wait(ticket);
    }
  }

 private:
  /// Two messages, one after the other, and an addition.
  static void ring(Rank me, int distance, Slice out, Slice in) {
    auto region = me.region("ring", out.bytes());
    for (int turn = 0; turn < 2 && distance % me.size() != 0; ++turn)
      me.exchange({send((me.rank() + distance) % me.size(), out),
                   receive((me.rank() + me.size() - distance % me.size()) % me.size(), in)});
    add(me, in, out);
  }
  /// Waited for only after arithmetic.
  static void late(Rank me, Slice work, Slice out, Slice in) {
    const int p = me.size(), next = (me.rank() + 1) % p, previous = (me.rank() + p - 1) % p;
    const Ticket first = p > 1 ? me.start({send(next, out), receive(previous, in)}) : Ticket{};
    fill(me, work.cut(0, work.size() / 2), 0);
    me.wait(first);
  }

  unsigned seed_;
  bool contention_;  // two queues or groups may want one port
};

RunOptions traced(int ranks) {
  RunOptions options{.ranks = ranks, .phantom = true, .check_races = false, .trace = true};
  options.machine = Machine::uniform(3e-6, 1e-10, 1e-12);
  options.machine.launch = 2e-6;
  return options;
}

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

// What the replay predicts is what the simulator does on a machine that has not got the cost: not less by the cost.
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

/// What goes through a file loses what is below a nanosecond.
class TraceFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / ("lockstep_trace_" + std::to_string(::getpid()))).string();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string refusal() const {
    try {
      read_chrome_trace(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.verdict(), Verdict::usage);
      return error.what();
    }
    return "";
  }
  std::string path_;
};

TEST_F(TraceFile, IsReadBackAsItWas) {
  const Outcome outcome = run(traced(3), RandomProgram(7, true));
  const Trace& trace = outcome.check().trace;
  {
    std::ofstream out(path_);
    write_chrome_trace(trace, out);
  }
  const Trace again = read_chrome_trace(path_);
  EXPECT_EQ(again.events.size(), trace.events.size());
  EXPECT_EQ(again.closures.size(), trace.closures.size());
  EXPECT_EQ(again.modelled, trace.modelled);
  EXPECT_EQ(again.eager_bytes, trace.eager_bytes);
  EXPECT_EQ(again.queues, trace.queues);
  EXPECT_NEAR(replay(make_graph(again, "")).seconds / outcome.seconds, 1, 1e-4);
  const Why a = why(trace), b = why(again);
  EXPECT_EQ(a.steps_in_run, 3);
  EXPECT_EQ(a.steps, 2) << "the first of three does not count";
  for (const Gain& gain : a.gains) EXPECT_NEAR(b.gain(gain.cost).gained, gain.gained, 1e-3) << to_string(gain.cost);
  const Diff same = diff(trace, again);
  for (const CategoryDifference& c : same.categories) {
    EXPECT_NEAR(c.seconds_b / c.seconds_a, 1, 1e-3);
    EXPECT_EQ(c.only_a, 0);
    EXPECT_EQ(c.only_b, 0);
  }
}

TEST_F(TraceFile, WhatIsNoTraceIsRefusedInOneSentence) {
  EXPECT_NE(refusal().find("No such file"), std::string::npos);
  write("hello");
  EXPECT_NE(refusal().find("no trace that ./lab train"), std::string::npos);
  write("{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"theirs\"}]}");
  EXPECT_NE(refusal().find("no trace that ./lab train"), std::string::npos);
  write("{\"otherData\": {\"program\": \"lockstep\"}, \"traceEvents\": []}");
  EXPECT_NE(refusal().find("it is empty"), std::string::npos);
  std::ostringstream whole;
  write_chrome_trace(run(traced(2), RandomProgram(1, true)).trace, whole);
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = whole.str();
    text.replace(text.rfind(what), what.size(), instead);
    write(text);
    return refusal();
  };
  EXPECT_NE(with("\"pid\": 1,", "\"pid\": -1,").find("rank -1"), std::string::npos);
  EXPECT_NE(with("\"pid\": 1,", "\"pid\": 4294967296,").find("not a whole number"), std::string::npos);
  EXPECT_NE(with("\"dur\": ", "\"dur\": -").find("a duration of"), std::string::npos);
  EXPECT_NE(with("\"ts\": ", "\"ts\": 1e30, \"was\": ").find("a time of"), std::string::npos);
  EXPECT_NE(with("\"ph\": ", "\"ph\": \"X\", \"ph\": ").find("is there twice"), std::string::npos);
  EXPECT_NE(with("{\"name\": \"main\"}", "{\"name\": \"main)\"}"), "no such text");  // a bracket that opens nowhere
  write(whole.str().substr(0, whole.str().size() / 2));
  EXPECT_NE(refusal().find("cut short"), std::string::npos);
}

/// What a trace lacks makes it one that cannot be replayed, or another trace; nothing worse.
template <class List, class F>
void expect_sentences(Trace trace, List Trace::*list, const F& use) {
  const List all = trace.*list;
  for (std::size_t first = 0; first < all.size(); first += 1 + all.size() / 40)
    for (const std::size_t last : {first + 1, first + all.size() / 8, all.size()}) {
      trace.*list = all;
      const auto at = [&](std::size_t i) {
        return (trace.*list).begin() + static_cast<std::ptrdiff_t>(std::min(i, all.size()));
      };
      (trace.*list).erase(at(first), at(last));
      try {
        use(trace);
      } catch (const Error& error) {
        EXPECT_EQ(error.verdict(), Verdict::usage) << error.what();
      }
    }
}

TEST(Why, ATraceThatLacksAPartIsReplayedOrRefused) {
  const Outcome outcome = run(traced(3), RandomProgram(7, true));
  const Trace& whole = outcome.check().trace;
  const auto use = [&](const Trace& trace) {
    try {
      why(trace);
    } catch (const Error&) {
      diff(whole, trace);
      throw;
    }
    diff(whole, trace);
  };
  expect_sentences(whole, &Trace::events, use);
  expect_sentences(whole, &Trace::closures, use);
  Trace lone = whole;  // of one rank only the closures are left
  std::erase_if(lone.events, [](const TraceEvent& event) { return event.rank == 1; });
  EXPECT_THROW(why(lone), Error);
}

TEST(Why, ATraceWithoutPositionsOrEventsIsRefused) {
  Trace old{.queues = {"main"}};
  EXPECT_THROW(why(old), Error);
  old.events.push_back({.kind = TraceEvent::Kind::compute, .name = "add", .end = 1});
  EXPECT_THROW(why(old), Error);
}

// A measured run: what is not recorded between two operations is the host's time, or loading data.
TEST(Why, HostTimeAndLoadingDataAreSeenInMeasuredRuns) {
  for (const bool loads : {true, false}) {
    Trace trace{.queues = {"main"}};
    for (int step = 0; step < 2; ++step) {
      const double at = step * 12e-3;
      const auto first = static_cast<std::uint64_t>(3 * step + 1);
      const auto add = [&](double from, double to, std::uint64_t position) {
        trace.events.push_back({.kind = TraceEvent::Kind::compute,
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
        trace.events.push_back({.kind = TraceEvent::Kind::region,
                                .name = name,
                                .begin = at + from,
                                .end = at + to,
                                .first = first,
                                .last = last,
                                .phase = true});
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
  EXPECT_EQ(text.find("-0.0 %"), text.npos) << text;
  EXPECT_NE(text.find("-0.4 %"), text.npos) << "a replay may take longer, and says so: " << text;
}

TEST(Diff, RanksDifferencesAndCountsWhatIsOnlyInOne) {
  using Kind = TraceEvent::Kind;
  const auto event = [](const char* name, double begin, double end) {
    return TraceEvent{.kind = Kind::compute, .name = name, .begin = begin, .end = end};
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
