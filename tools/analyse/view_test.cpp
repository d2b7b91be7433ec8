// Tests ./lab view: its sums are those of the ledgers, its names and partial sums those of the run. With
// LOCKSTEP_VIEW_PAGES=FOLDER the runs' pages are kept there, each with a file of the ledgers' figures, for
// browser_test.sh.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "common/analysis/holdings.hpp"
#include "common/analysis/labels.hpp"
#include "common/analysis/write_trace.hpp"
#include "common/support/json/document.hpp"
#include "tools/analyse/random_program_testing.hpp"
#include "tools/analyse/ring_run_testing.hpp"
#include "tools/analyse/view/page.hpp"
#include "tools/analyse/view/panels.hpp"
#include "tools/analyse/view/sources.hpp"

namespace lockstep::view {
namespace {

using analysis::Shares;
using analysis::TimeShare;

/// Every rank sends before it receives, and nobody listens.
Outcome deadlock(int ranks) {
  RunOptions options{.ranks = ranks, .trace = true};
  options.machine.eager_bytes = 0;
  options.machine.launch = 5e-7;  // arithmetic that is long compared with a nanosecond
  return run(options, [](Rank me) {
    Slice data = me.allocate(4, DType::f32, Category::buffer);
    fill(me, data, 1);
    me.exchange({send((me.rank() + 1) % me.size(), data)});
    me.exchange({receive((me.rank() + me.size() - 1) % me.size(), data)});
  });
}

void keep_page(const std::string& name, const Outcome& outcome, const PageOptions& options = {}) {
  const char* folder = std::getenv("LOCKSTEP_VIEW_PAGES");
  if (!folder) return;
  const std::string base = std::string(folder) + "/" + name;
  std::ofstream(base + ".html") << page({{name, read_back(outcome.trace)}}, options);
  long long busy = 0, waiting = 0;  // of the traced ranks, in nanoseconds
  std::uint64_t messages = 0, bytes = 0;
  std::set<int> traced;
  for (const TraceEvent& e : outcome.trace.events) traced.insert(e.rank);
  for (std::size_t r = 0; r < outcome.ledgers.size(); ++r) {
    const RankLedger& ledger = outcome.ledgers[r];
    messages += ledger.traffic.messages_sent;
    bytes += ledger.traffic.bytes_sent;
    if (!traced.contains(static_cast<int>(r))) continue;
    busy += std::llround(ledger.queues[0].busy * 1e9);
    waiting += std::llround(ledger.queues[0].waiting * 1e9);
  }
  std::ofstream(base + ".ledger") << busy << " " << waiting << " " << messages << " " << bytes << "\n";
}

void expect_ledgers(const Outcome& outcome, const Trace& trace) {
  const Shares shares = analysis::shares_of(trace);
  ASSERT_EQ(shares.ranks.size(), outcome.ledgers.size());
  for (const analysis::TimeShare& share : shares.ranks) {
    const QueueTime& main = outcome.ledgers[static_cast<std::size_t>(share.rank)].queues[0];
    EXPECT_NEAR(share.computing, main.busy, 1e-6 * main.end + 1e-12);
    EXPECT_NEAR(share.waiting(), main.waiting, 1e-6 * main.end + 1e-12);
    EXPECT_NEAR(share.computing + share.waiting() + share.other, shares.seconds, 1e-6 * shares.seconds);
  }
}

TEST(Page, SharesOfTimeAreThoseOfTheLedgers) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    const Outcome outcome = run(analysis::traced(4), analysis::RandomProgram(seed, seed % 2 == 0));
    expect_ledgers(outcome, outcome.check().trace);
    const Trace again = read_back(outcome.trace);
    const std::string legend = legend_json(again, analysis::shares_of(again));
    EXPECT_NE(legend.find("\"agrees\":true"), std::string::npos) << legend;
    if (seed == 2) keep_page("random", outcome);
  }
}

TEST(Page, ALegendThatLacksAnEventIsSaidToBeWrong) {
  Trace trace = read_back(run(analysis::traced(3), analysis::RandomProgram(3, false)).trace);
  const auto seconds = [](const TraceEvent& e) { return e.compute() && e.queue == 0 ? e.end - e.begin : 0; };
  const auto lost = std::max_element(trace.events.begin(), trace.events.end(),
                                     [&](const TraceEvent& a, const TraceEvent& b) { return seconds(a) < seconds(b); });
  ASSERT_GT(seconds(*lost), 0);
  trace.events.erase(lost);
  EXPECT_NE(legend_json(trace, analysis::shares_of(trace)).find("\"agrees\":false"), std::string::npos);
}

/// Rank 1 computes for long before it sends: rank 0 waits for it, and then for the message.
TEST(Page, WaitingForALateRankIsNoCommunication) {
  RunOptions options{.ranks = 2, .phantom = true, .check_races = false, .trace = true};
  options.machine = Machine::uniform(1e-3, 1e-9, 1e-9);
  const Outcome outcome = run(options, [](Rank me) {
    Slice work = me.allocate(1 << 20, DType::f32, Category::buffer);
    if (me.rank() == 1) fill(me, work, 0);
    if (me.rank() == 1) me.exchange({send(0, work)});
    if (me.rank() == 0) me.exchange({receive(1, work)});
  });
  const Shares shares = analysis::shares_of(read_back(outcome.check().trace));
  const double late = outcome.ledgers[1].queues[0].busy, moving = 1e-3 + 4e-9 * (1 << 20);
  EXPECT_NEAR(shares.ranks[0].bubble, late, 1e-6);
  EXPECT_NEAR(shares.ranks[0].exposed, moving, 1e-6);
  EXPECT_NEAR(shares.ranks[1].bubble, 0, 1e-9);
}

TEST(Page, MessagesOfARingNameTheirChunks) {
  const Outcome outcome = ring_run(4, 8);
  const Trace trace = read_back(outcome.check().trace);
  const std::vector<analysis::Flight> flights = analysis::flights_of(trace);
  const analysis::Labels labels = analysis::labels_of(trace, flights);
  ASSERT_EQ(flights.size(), 24u);
  std::map<std::string, int> seen;
  for (const std::string& name : labels.messages) ++seen[name];
  EXPECT_EQ(seen.size(), 4u);
  for (int c = 0; c < 4; ++c) EXPECT_EQ(seen["chunk " + std::to_string(c)], 6) << c;
  const auto first = std::find_if(trace.events.begin(), trace.events.end(),
                                  [](const TraceEvent& e) { return e.transfer() && e.rank == 2; });
  EXPECT_EQ(labels.events[static_cast<std::size_t>(first - trace.events.begin())],
            "send chunk 1 to rank 3; receive chunk 0 from rank 1");
  const auto wait = std::find_if(trace.events.begin(), trace.events.end(),
                                 [](const TraceEvent& e) { return e.wait() && e.rank == 2; });
  EXPECT_EQ(labels.events[static_cast<std::size_t>(wait - trace.events.begin())], "wait: chunk 0 from rank 1");
  keep_page("ring", outcome);
}

TEST(Page, ARingEndsWithEverySumComplete) {
  const analysis::Holdings held = analysis::holdings_of(read_back(ring_run(4, 8).check().trace));
  EXPECT_EQ(held.none, "");
  ASSERT_EQ(held.steps.size(), 7u);
  EXPECT_EQ(held.steps[0][2][3].text, "2");
  EXPECT_EQ(held.steps[1][2][0].text, "1+2");
  EXPECT_NEAR(held.times[1][2], 1.008e-6 + 5e-7, 5e-9) << "the message, and the addition after it";
  for (int rank = 0; rank < 4; ++rank) {
    for (int c = 0; c < 4; ++c) {
      EXPECT_TRUE(held.steps[6][rank][c].complete) << rank << " " << c;
      EXPECT_EQ(held.steps[3][rank][c].complete, c == rank) << "after the reduce-scatter";
    }
  }
}

TEST(Page, ClocksOfProcessesDoNotMatterToWhoHoldsWhat) {
  Trace trace = read_back(ring_run(4, 8).check().trace);
  for (TraceEvent& e : trace.events) e.begin += 1e-3 * (3 - e.rank), e.end += 1e-3 * (3 - e.rank);
  const analysis::Holdings held = analysis::holdings_of(trace);
  ASSERT_EQ(held.steps.size(), 7u) << held.none;
  for (int rank = 0; rank < 4; ++rank)
    for (int c = 0; c < 4; ++c) EXPECT_TRUE(held.steps[6][rank][c].complete) << rank << " " << c;
  trace.blocks.clear();
  EXPECT_NE(analysis::holdings_of(trace).none, "");
}

TEST(Page, AWrongRingShowsItsMistake) {
  const Outcome outcome = ring_run(4, 8, 1);
  const analysis::Holdings held = analysis::holdings_of(read_back(outcome.check().trace));
  ASSERT_EQ(held.steps.size(), 7u);
  EXPECT_TRUE(held.steps[3][0][1].complete) << "chunk 1 is complete where chunk 0 should be";
  EXPECT_FALSE(held.steps[3][0][0].complete);
  int complete = 0;
  for (const auto& row : held.steps[6])
    for (const analysis::Held& h : row) complete += h.complete ? 1 : 0;
  EXPECT_LT(complete, 16);
  keep_page("wrong_ring", outcome);
}

TEST(Page, ADeadlockKeepsItsCycle) {
  const Outcome outcome = deadlock(4);
  EXPECT_EQ(outcome.verdict, Verdict::deadlock);
  const Trace trace = read_back(outcome.trace);
  EXPECT_EQ(trace.verdict, "DEADLOCK");
  EXPECT_EQ(trace.message, outcome.message);
  ASSERT_EQ(trace.stuck.size(), 4u);
  for (const TraceStuck& s : trace.stuck) {
    EXPECT_EQ(s.needs_rank, (s.rank + 1) % 4);
    EXPECT_EQ(s.link, s.rank);
    EXPECT_NE(s.reason.find("sends 16 bytes to rank"), std::string::npos) << s.reason;
  }
  expect_ledgers(outcome, outcome.trace);
  keep_page("deadlock", outcome);
}

/// Rank 1 scales a slice that is still being received, before it waits.
Outcome race() {
  RunOptions options{.ranks = 2, .trace = true};
  options.machine.launch = 5e-7;
  return run(options, [](Rank me) {
    Slice data = me.allocate(16, DType::f32, Category::buffer);
    Slice half = data.cut(8, 8);
    fill(me, data, 1);
    fill(me, data.cut(0, 4), 2);
    Ticket ticket = me.rank() == 0 ? me.start({send(1, half)}) : me.start({receive(0, half)});
    if (me.rank() == 1) scale(me, data.cut(0, 10), 2);
    me.wait(ticket);
  });
}

TEST(Page, ARaceKeepsItsTwoAccesses) {
  const Outcome outcome = race();
  ASSERT_EQ(outcome.verdict, Verdict::race);
  const Trace trace = read_back(outcome.trace);
  ASSERT_EQ(trace.races.size(), 1u);
  const TraceRace& found = trace.races[0];
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.offset, 32u);
  EXPECT_EQ(found.bytes, 8u) << "of the ten elements two are being received";
  EXPECT_EQ(found.first.what, "a receive started");
  EXPECT_TRUE(found.first.writes);
  EXPECT_EQ(found.second.what, "scale");
  EXPECT_EQ(found.second.position, found.first.position + 1);
  EXPECT_NE(outcome.message.find(found.first.where), std::string::npos);
  EXPECT_NE(outcome.message.find(found.second.where), std::string::npos);
  const Json drawn = Json::parse(scene(trace, {.title = "a race"})).at("race");
  EXPECT_EQ(drawn.at("accesses").size(), 2u);
  EXPECT_EQ(drawn.at("accesses").at(1).at(5).get<long long>(), std::llround(1e9 * found.second.time));
  EXPECT_EQ(drawn.at("uses").size(), 2u) << "the two fills: the receive had not ended";
  keep_page("race", outcome);
}

/// A race of two operations that have both an event, on two queues.
TEST(Page, ARaceOfTwoQueuesNamesThem) {
  RunOptions options{.ranks = 1, .trace = true};
  options.machine.launch = 5e-7;
  const Outcome outcome = run(options, [](Rank me) {
    Rank other = me.stream("other");
    Slice data = me.allocate(4, DType::f32, Category::buffer),
          more = me.allocate(1 << 16, DType::f32, Category::buffer);
    fill(me, data, 1);
    Ticket ticket = me.run(other, [data](Rank queue) { scale(queue, data, 2); });
    fill(me, more, 0);  // the other queue is done meanwhile
    scale(me, data, 3);
    me.wait(ticket);
  });
  ASSERT_EQ(outcome.verdict, Verdict::race);
  const Trace trace = read_back(outcome.trace);
  ASSERT_EQ(trace.races.size(), 1u);
  const TraceRace& found = trace.races[0];
  EXPECT_NE(found.first.queue, found.second.queue);
  const auto is_first = [&](const TraceEvent& e) {
    return e.compute() && e.queue == found.first.queue && e.first == found.first.position;
  };
  const auto first = std::find_if(trace.events.begin(), trace.events.end(), is_first);
  ASSERT_NE(first, trace.events.end()) << "the earlier one has ended, and is in the trace";
  EXPECT_EQ(first->name, "scale");
  EXPECT_EQ(first->where, found.first.where);
}

TEST(Page, WhatDidNothingBeforeItsDeadlockHasALaneAllTheSame) {
  RunOptions options{.ranks = 2, .trace = true};
  const Outcome outcome = run(options, [](Rank me) {
    Slice data = me.allocate(4, DType::f32, Category::buffer);
    me.exchange({receive(1 - me.rank(), data)});
  });
  const Trace trace = read_back(outcome.trace);
  EXPECT_TRUE(trace.events.empty());
  const Json drawn = Json::parse(scene(trace, {.title = "two that listen"}));
  EXPECT_EQ(drawn.at("lanes").size(), 2u);
  EXPECT_EQ(drawn.at("stuck").size(), 2u);
}

TEST(Page, SaysWhatItLeavesOut) {
  const Outcome outcome = ring_run(1024, 1025, 0, 16);
  EXPECT_EQ(outcome.check().trace.totals.size(), 1024u);
  const Trace trace = read_back(outcome.trace);
  const Json drawn = Json::parse(scene(trace, {.title = "", .most_events = 20'000}));
  EXPECT_EQ(drawn.at("ranks").get<int>(), 1024);
  EXPECT_EQ(drawn.at("recorded").get<int>(), 16);
  EXPECT_LT(drawn.at("drawn").get<int>(), 16);
  EXPECT_NE(drawn.at("path").get<std::string>().find("some of the ranks"), std::string::npos);
  keep_page("ring_1024", outcome);
}

Json scene_of(const Trace& trace, const SceneOptions& options) { return Json::parse(scene(trace, options)); }

TEST(Page, WhatDoesNotFitIsThereInShares) {
  const Trace trace = read_back(ring_run(16, 64).trace);
  const Json whole = scene_of(trace, {});
  EXPECT_EQ(whole.at("drawn").get<int>(), 16);
  EXPECT_EQ(whole.at("rough").at("ranks").size(), 0u);
  const Json part = scene_of(trace, {.most_bytes = 10'000});
  const int drawn = part.at("drawn").get<int>();
  EXPECT_GE(drawn, 1);
  ASSERT_LT(drawn, 16);
  ASSERT_EQ(part.at("rough").at("ranks").size(), static_cast<std::size_t>(16 - drawn));
  const analysis::Shares shares = analysis::shares_of(trace);
  for (const Json& rank : part.at("rough").at("ranks")) {
    const std::string digits = rank.at(1);
    ASSERT_EQ(digits.size(), 3u * 600);
    const TimeShare& share = shares.ranks[static_cast<std::size_t>(rank.at(0).get<int>())];
    double sums[3] = {};
    for (std::size_t i = 0; i < digits.size(); ++i) sums[i % 3] += (digits[i] - '0') / 9.0 / 600;
    EXPECT_NEAR(sums[0], share.computing / shares.seconds, .02);
    EXPECT_NEAR(sums[1], share.exposed / shares.seconds, .02);
    EXPECT_NEAR(sums[2], share.bubble / shares.seconds, .02);
  }
}

TEST(Page, SaysWhatRanAndWhatItsTimesAre) {
  std::ostringstream text;
  write_chrome_trace(ring_run(4, 8).trace, text, "a ring of four");
  Trace trace = parse_chrome_trace(text.str(), "ring.json");
  EXPECT_NE(page({{"ring", trace}}, {}).find(R"("title":"a ring of four")"), std::string::npos);
  EXPECT_NE(page({{"one", trace}, {"two", trace}}, {}).find(R"x("title":"a ring of four (two)")x"), std::string::npos)
      << "which of two that are called the same";
  const auto about = [&] { return scene_of(trace, {}).at("about").get<std::string>(); };
  EXPECT_EQ(about(), "4 ranks · simulated: uniform · the reference's code");
  trace.backend = "mpi", trace.machine = "pcie-box", trace.code = "yours";
  EXPECT_EQ(about(), "4 ranks · emulated, real messages delayed to the times of pcie-box · your code");
  trace.modelled = false, trace.machine = "a processor";
  EXPECT_EQ(about(), "4 ranks · measured on processes: a processor · your code");
  trace.backend = trace.machine = trace.code = trace.title = "";  // of an older trace
  EXPECT_EQ(about(), "4 ranks · measured");
  EXPECT_NE(page({{"file", trace}}, {}).find(R"("title":"file")"), std::string::npos);
}

TEST(Page, APlaceIsShownWithItsNeighbours) {
  const Trace trace = read_back(ring_run(4, 8).trace);
  const Json drawn = scene_of(trace, {.source = LOCKSTEP_SOURCE_DIR});
  const auto of_add = std::find_if(trace.events.begin(), trace.events.end(), [](auto& e) { return e.compute(); });
  ASSERT_NE(of_add, trace.events.end());
  const Json& place = drawn.at("sources").at(of_add->where);
  EXPECT_EQ(place.at(0).get<std::string>(), "tools/analyse/ring_run_testing.hpp");
  const Json& lines = drawn.at("lines").at("tools/analyse/ring_run_testing.hpp");
  const auto line = std::find_if(lines.begin(), lines.end(),
                                 [&](const Json& l) { return l.at(0).get<int>() == place.at(1).get<int>(); });
  ASSERT_NE(line, lines.end());
  EXPECT_NE((*line).at(1).get<std::string>().find(of_add->name + "("), std::string::npos);
  EXPECT_GE(lines.size(), 9u) << "with its neighbours";
  EXPECT_EQ(scene_of(trace, {}).at("sources").size(), 0u) << "nothing is read where no root is given";
}

TEST(Page, OfTwoFilesWithOneNameTheOneThatRanIsShown) {
  const auto path = [](const std::string& place, const std::string& code) -> std::string {
    const Json found = Json::parse("{" + sources_json({place}, {LOCKSTEP_SOURCE_DIR, code}) + "}");
    const Json* known = found.at("sources").find(place);
    return known ? known->at(0).get<std::string>() : "none";
  };
  const std::string begin = "ring_all_reduce.cpp:1 (lockstep)";  // every file's first line is a comment without it
  EXPECT_EQ(path(begin, "reference"), "none") << "no such function at or above that line";
  const std::string place = "ring_all_reduce.cpp:12 (ring_reduce_scatter)";
  EXPECT_EQ(path(place, "reference"), "none") << "a page is passed on, and would give the answer away";
  EXPECT_EQ(path(place, "yours"), "labs/week21_data_parallel/ring_all_reduce.cpp");
  for (const char* odd : {"", "ring_all_reduce.cpp", "ring_all_reduce.cpp:x (f)", "ring_all_reduce.cpp:0 (f)",
                          "nowhere.cpp:3 (f)", "ring_all_reduce.cpp:99999 (ring_reduce_scatter)", "a (b"})
    EXPECT_EQ(path(odd, "reference"), "none") << odd;
}

TEST(Page, NothingInATextEndsItsScript) {
  Trace trace = read_back(ring_run(2, 4).trace);
  trace.verdict = "FAIL";
  trace.message = "</script><script>alert(1)</script>\xff";
  const std::string html = page({{"<b>title", trace}}, {});
  EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(html.find("<b>title"), std::string::npos);
  EXPECT_EQ(html.find("http"), html.find("http-equiv")) << "nothing is fetched";
  EXPECT_LT(html.size(), 200'000u);
}

}  // namespace
}  // namespace lockstep::view
