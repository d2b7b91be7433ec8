// Traces that were written to a file: read back unchanged; damaged ones are refused in a sentence, by every command
// that uses them.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "common/analysis/diff.hpp"
#include "common/analysis/read_trace.hpp"
#include "common/analysis/why.hpp"
#include "common/analysis/write_trace.hpp"
#include "common/support/tests/folder_testing.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "tools/analyse/random_program_testing.hpp"

namespace lockstep::analysis {
namespace {

/// A trace that goes through a file loses anything below a nanosecond.
class TraceFile : public TestFolder {
 protected:
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string refusal() const {
    return lockstep::refusal([this] { read_chrome_trace(path_); });
  }
  const std::string path_ = file("trace.json");
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

TEST_F(TraceFile, HoldsTheWorkOfOperations) {
  const Outcome outcome = run(traced(1), Program([](Rank me) -> Values {
                                const Slice x = me.allocate(1000, DType::f32, Category::buffer),
                                            y = me.allocate(1000, DType::f32, Category::buffer);
                                add(me, x, y);
                                return {};
                              }));
  std::ostringstream text;
  write_chrome_trace(outcome.check().trace, text);
  EXPECT_NE(text.str().find(R"("flop": 1000, "moved_bytes": 12000)"), std::string::npos) << text.str();
}

TEST_F(TraceFile, WhatIsNoTraceIsRefusedInOneSentence) {
  EXPECT_NE(refusal().find("No such file"), std::string::npos);
  write("hello");
  EXPECT_NE(refusal().find("not a trace that ./lab train"), std::string::npos);
  write("{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"theirs\"}]}");
  EXPECT_NE(refusal().find("not a trace that ./lab train"), std::string::npos);
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
  EXPECT_NE(with("\"ph\": ", "\"ph\": \"X\", \"ph\": ").find("occurs twice"), std::string::npos);
  EXPECT_NE(with("{\"name\": \"main\"}", "{\"name\": \"main)\"}"), "no such text");  // a bracket that opens nowhere
  write(whole.str().substr(0, whole.str().size() / 2));
  EXPECT_NE(refusal().find("cut short"), std::string::npos);
}

/// A trace that lacks something cannot be replayed, or is another trace; nothing worse.
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
      refusal([&] { use(trace); });
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
  old.events.push_back({.what = TraceCompute{}, .name = "add", .end = 1});
  EXPECT_THROW(why(old), Error);
}

}  // namespace
}  // namespace lockstep::analysis
