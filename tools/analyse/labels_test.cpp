// Names of messages and regions, and the table of them that --trace prints.
#include "common/analysis/labels.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/analysis/message_table.hpp"
#include "tools/analyse/random_program_testing.hpp"
#include "tools/analyse/ring_run_testing.hpp"

namespace lockstep::view {
namespace {

TEST(Labels, APartOfAnArrayHasTheNameOfItsChunk) {
  using analysis::part_name;
  EXPECT_EQ(part_name(32, 4, 16, 8), "chunk 2");
  EXPECT_EQ(part_name(28, 4, 0, 8), "chunk 0");
  EXPECT_EQ(part_name(28, 4, 24, 4), "chunk 3");
  EXPECT_EQ(part_name(32, 4, 0, 16), "chunks 0 to 1");
  EXPECT_EQ(part_name(32, 4, 0, 32), "the whole array");
  EXPECT_EQ(part_name(32, 4, 4, 8), "bytes 4 to 12");
  EXPECT_EQ(part_name(6, 3, 2, 2), "chunk 1") << "elements of two bytes";
}

TEST(Labels, WhatTheProgramCountsKeepsItsNumber) {
  const Outcome outcome = run(analysis::traced(2), [](Rank me) {
    Slice data = me.allocate(8, DType::f32, Category::gradient), scratch = me.allocate(4, DType::f32, Category::buffer);
    fill(me, data, 1);
    for (int b = 1; b <= 2; ++b) {
      const std::string name = fmt::format("bucket {} of 2", b);  // gone before the run is
      Scope scope = me.region(name.c_str());
      ring(me, data.cut(4 * (b - 1), 4), scratch);
    }
  });
  const Trace trace = read_back(outcome.check().trace);
  const std::vector<analysis::Flight> flights = analysis::flights_of(trace);
  const analysis::Labels labels = analysis::labels_of(trace, flights);
  EXPECT_EQ(std::count(labels.events.begin(), labels.events.end(), "bucket 2 of 2"), 2);
  EXPECT_EQ(std::count(labels.events.begin(), labels.events.end(), "ring_all_reduce, 16 B"), 4);
  EXPECT_EQ(std::count(labels.messages.begin(), labels.messages.end(), "bucket 2 of 2: chunk 1"), 2);
  EXPECT_EQ(std::count(labels.places.begin(), labels.places.end(), "bucket 1 of 2: ring_all_reduce, 16 B"), 4);
}

TEST(MessageTable, ARingStepByStep) {
  const std::string table = analysis::message_table(ring_run(4, 8).check().trace);
  EXPECT_EQ(table.substr(0, table.find('\n')), "24 messages, by steps (a rank's batches)");
  EXPECT_NE(table.find("ring_all_reduce, 32 B\n"), std::string::npos) << table;
  EXPECT_NE(table.find("     1  0 s to 1.01 µs               8 B   0 → 1: chunk 3,  1 → 2: chunk 0,  2 → 3: chunk 1,  "
                       "3 → 0: chunk 2\n"),
            std::string::npos)
      << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3 + 6) << table;
  EXPECT_NE(analysis::message_table(ring_run(4, 8).trace, 2).find("… and 5 lines more"), std::string::npos);
  EXPECT_EQ(analysis::message_table(ring_run(16, 16).trace).substr(0, 13), "480 messages ");
}

TEST(MessageTable, TheDrawingBeginsAfterTheSetUp) {
  const auto program = [](Rank me, bool more) {
    Slice data = me.allocate(4, DType::f32, Category::gradient), scratch = me.allocate(4, DType::f32, Category::buffer);
    fill(me, data, 1);
    {
      Scope scope = me.region("broadcast", data.bytes());
      if (me.rank() == 0) me.exchange({send(1, data), send(2, data)});
      if (me.rank() > 0) me.exchange({receive(0, data)});
    }
    if (more) ring(me, data, scratch);
  };
  const Trace whole = run(analysis::traced(3), [&](Rank me) { program(me, true); }).check().trace;
  const Trace rest = analysis::without_set_up(whole);
  EXPECT_LT(rest.events.size(), whole.events.size());
  double begin = 1;
  for (const TraceEvent& e : rest.events) {
    EXPECT_NE(e.name, "broadcast");
    EXPECT_GE(e.begin, 0);
    begin = std::min(begin, e.begin);
  }
  EXPECT_EQ(begin, 0);
  const double set_up = analysis::set_up_seconds(whole);
  EXPECT_GT(set_up, 0);
  double end = 0, whole_end = 0;
  for (const TraceEvent& e : rest.events) end = std::max(end, e.end);
  for (const TraceEvent& e : whole.events) whole_end = std::max(whole_end, e.end);
  EXPECT_NEAR(set_up + end, whole_end, 1e-12);
  EXPECT_EQ(analysis::message_table(rest).find("broadcast"), std::string::npos);
  EXPECT_EQ(analysis::message_table(rest).substr(0, 12), "12 messages,");
  const Trace alone = run(analysis::traced(3), [&](Rank me) { program(me, false); }).check().trace;
  EXPECT_EQ(analysis::without_set_up(alone).events.size(), alone.events.size()) << "it is what is looked at";
  EXPECT_EQ(analysis::set_up_seconds(alone), 0);
}

}  // namespace
}  // namespace lockstep::view
