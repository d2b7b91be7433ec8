// Traces: written files can be read back, events nest, and descriptions match.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <sstream>

#include "common/analysis/intervals.hpp"
#include "common/analysis/layout.hpp"
#include "common/analysis/write_trace.hpp"
#include "common/support/json/document.hpp"

namespace lockstep {
namespace {

TraceEvent event(decltype(TraceEvent::what) what, int rank, int queue, std::string name, double begin, double end) {
  return {.what = std::move(what),
          .rank = rank,
          .queue = queue,
          .name = std::move(name),
          .where = "ring.cpp:31",
          .begin = begin,
          .end = end};
}

/// Two ranks; rank 0 has a queue "comm" whose transfers run while main computes.
Trace sample() {
  Trace trace{.queues = {"main", "comm"}};
  trace.events = {
      event(TraceCompute{}, 0, 0, "matmul", 2e-6, 6e-6),
      event(TraceRegion{}, 0, 0, "backward", 1e-6, 9e-6),
      event(TraceWait{}, 0, 0, "wait", 6e-6, 9e-6),
      event(TraceRegion{}, 0, 0, "layer \"1\" <&>", 1e-6, 6e-6),
      event(TraceWait{}, 0, 1, "wait", 3e-6, 8e-6),
      event(TraceTransfer{}, 0, 1, "send 4 KiB to 1", 3e-6, 7e-6),
      event(TraceTransfer{}, 0, 1, "receive 4 KiB from 1", 4e-6, 8e-6),
      event(TraceCompute{}, 1, 0, "add", 0, 10e-6),
  };
  return trace;
}

/// Complete events of one thread, as (begin, end) in nanoseconds.
using Spans = std::vector<std::array<long long, 2>>;
std::map<std::pair<int, int>, Spans> spans_of(const Json& document) {
  std::map<std::pair<int, int>, Spans> spans;
  for (const Json& entry : document.at("traceEvents")) {
    if (entry.at("ph") != "X") continue;
    long long begin = std::llround(entry.at("ts").get<double>() * 1e3);
    spans[{entry.at("pid"), entry.at("tid")}].push_back(
        {begin, begin + std::llround(entry.at("dur").get<double>() * 1e3)});
  }
  return spans;
}

void expect_nested(const Spans& spans) {
  for (const auto& a : spans)
    for (const auto& b : spans) {
      bool disjoint = a[1] <= b[0] || b[1] <= a[0];
      bool nested = (a[0] <= b[0] && b[1] <= a[1]) || (b[0] <= a[0] && a[1] <= b[1]);
      EXPECT_TRUE(disjoint || nested) << a[0] << "–" << a[1] << " and " << b[0] << "–" << b[1];
    }
}

Json chrome(const Trace& trace) {
  std::ostringstream out;
  write_chrome_trace(trace, out);
  return Json::parse(out.str());
}

TEST(ChromeTrace, HoldsEveryEventWithItsTimes) {
  Json document = chrome(sample());
  int complete = 0;
  for (const Json& entry : document.at("traceEvents")) {
    if (entry.at("ph") != "X") continue;
    ++complete;
    if (entry.at("name") == "matmul") {
      EXPECT_EQ(entry.at("ts"), 2.0);
      EXPECT_EQ(entry.at("dur"), 4.0);
      EXPECT_EQ(entry.at("cat"), "compute");
      EXPECT_EQ(entry.at("args").at("where"), "ring.cpp:31");
    }
  }
  EXPECT_EQ(complete, 8);
}

TEST(ChromeTrace, TransfersHaveThreadsOfTheirOwnAndEveryThreadNests) {
  Json document = chrome(sample());
  std::map<std::pair<int, int>, std::string> names;
  for (const Json& entry : document.at("traceEvents"))
    if (entry.at("name") == "thread_name") names[{entry.at("pid"), entry.at("tid")}] = entry.at("args").at("name");
  for (const Json& entry : document.at("traceEvents")) {
    if (entry.value("cat", "") != "transfer") continue;
    EXPECT_TRUE(names.at({entry.at("pid"), entry.at("tid")}).starts_with("comm: transfers"));
  }
  for (const auto& [thread, spans] : spans_of(document)) expect_nested(spans);
}

TEST(ChromeTrace, OverlapsOfAnyKindNestAfterRounding) {
  const decltype(TraceEvent::what) kinds[] = {TraceCompute{}, TraceWait{}, TraceTransfer{}, TraceRegion{}};
  Trace trace{.queues = {"main"}};
  unsigned random = 1;
  auto next = [&] { return (random = random * 1664525u + 1013904223u) / 4294967296.0; };
  for (int i = 0; i < 300; ++i) {
    double begin = next() * 1e-6;
    trace.events.push_back(event(kinds[i % 4], 0, 0, "e", begin, begin + next() * next() * 3e-7));
  }
  std::size_t events = 0;
  for (const auto& [thread, spans] : spans_of(chrome(trace))) {
    expect_nested(spans);
    events += spans.size();
  }
  EXPECT_EQ(events, 300u);
}

TEST(ChromeTrace, AnEmptyTraceIsValid) { EXPECT_TRUE(chrome({}).at("traceEvents").empty()); }

TEST(GanttText, OneLetterForWhatAQueueMostlyDoes) {
  std::ostringstream out;
  write_gantt_text(sample(), out, 31);
  EXPECT_EQ(out.str(),
            "rank 0 main |··CCCCwww·|  40%\n"
            "rank 0 comm |···ttttt··|   0%\n"
            "rank 1 main |CCCCCCCCCC| 100%\n"
            "             0 s  10.0 µs\n"
            "C computing  B computing while bytes move  t bytes moving  w waiting  · idle;  % = share computing\n");
}

TEST(GanttText, ComputingWhileBytesMoveIsMarked) {
  Trace trace{.queues = {"main"}};
  trace.events = {event(TraceCompute{}, 0, 0, "gelu", 0, 8e-6), event(TraceTransfer{}, 0, 0, "send", 2e-6, 10e-6)};
  std::ostringstream out;
  write_gantt_text(trace, out, 31);
  EXPECT_EQ(out.str().substr(0, 23), "rank 0 main |CCBBBBBBtt");
}

TEST(GanttText, APipelineHasALineForEachStage) {
  const TraceTransfer sent{.messages = {{.peer = 1, .sends = true, .bytes = 4}}},
      received{.messages = {{.peer = 0, .sends = false, .bytes = 4}}};
  Trace trace{.queues = {"main", "down even"}};
  trace.events = {event(TraceCompute{}, 0, 0, "F0", 0, 4e-6),      event(sent, 0, 1, "send", 4e-6, 4e-6),
                  event(TraceWait{}, 1, 0, "wait", 0, 6e-6),       event(received, 1, 1, "receive", 0, 6e-6),
                  event(TraceCompute{}, 1, 0, "F0", 6e-6, 8e-6),   event(TraceWait{}, 1, 0, "wait", 8e-6, 9e-6),
                  event(TraceCompute{}, 1, 0, "B0.1", 9e-6, 10e-6)};
  std::ostringstream out;
  write_gantt_text(trace, out, 28);
  EXPECT_EQ(out.str(),
            "stage  0 |F0──······|  40%\n"
            "         |    vv    |\n"
            "stage  1 |······F0wB|  30%\n"
            "         |          |\n"
            "          0 s  10.0 µs\n"
            "F0─ forward  B0═ backward  v activations on  w waiting  · idle;  % = share computing\n");
}

TEST(GanttText, ADeadlockBeforeAnyMessageSaysWhereToLook) {
  Trace trace{.queues = {"main"}};
  std::ostringstream nothing, stuck;
  write_gantt_text(trace, nothing, 31);
  EXPECT_EQ(nothing.str(), "(nothing happened)\n");
  trace.stuck = {{.rank = 0, .needs_rank = 1}, {.rank = 1, .needs_rank = 0}};
  write_gantt_text(trace, stuck, 31);
  EXPECT_EQ(stuck.str(), "(no message was completed: the DEADLOCK says who waits for whom; ./lab view draws it)\n");
}

TEST(Layout, CoveredCountsOverlapsOnce) {
  TraceEvent a = event(TraceTransfer{}, 0, 0, "a", 0, 4), b = event(TraceTransfer{}, 0, 0, "b", 1, 3),
             c = event(TraceTransfer{}, 0, 0, "c", 3, 6);
  EXPECT_EQ(covered({&a, &b, &c}, TraceEvent::Kind::transfer), 6);
  EXPECT_EQ(lanes({&a, &b, &c}, true).size(), 2u);
  EXPECT_EQ(lanes({&a, &b, &c}, false).size(), 2u);
}

/// Every set of six cells against every other.
TEST(Intervals, CommonAndOutsideAreAsOfSets) {
  const auto of = [](unsigned cells) {
    std::vector<analysis::Interval> all;
    for (int i = 0; i < 6; ++i)
      if (cells >> i & 1) all.push_back({double(i), double(i + 1)});
    return analysis::joined(all);
  };
  const auto cells_of = [](const std::vector<analysis::Interval>& all) {
    unsigned cells = 0;
    for (const analysis::Interval& one : all)
      for (int i = static_cast<int>(one.begin); i < one.end; ++i) cells |= 1U << i;
    EXPECT_EQ(analysis::length(all), std::popcount(cells)) << "overlaps";
    return cells;
  };
  for (unsigned a = 0; a < 64; ++a)
    for (unsigned b = 0; b < 64; ++b) {
      EXPECT_EQ(cells_of(analysis::common(of(a), of(b))), a & b);
      EXPECT_EQ(cells_of(analysis::outside(of(a), of(b))), a & ~b);
    }
}

}  // namespace
}  // namespace lockstep
