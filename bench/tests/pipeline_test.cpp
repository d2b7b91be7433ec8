// ./lab pipeline and ./lab bench schedule, from outside.
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "bench/programs/bench_program.hpp"

namespace lockstep::bench {
namespace {

/// The name of a file in the test's folder that holds `text`.
std::string written(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

TEST_F(BenchProgram, PipelinesAreDrawnAndCounted) {
  // arXiv 2401.10241, table 5: p = 8, m = 24.
  const std::string times = " --forward-ms 18.522 --backward-ms 18.086 --weight-ms 9.337 --comm-ms 0.601 --no-chart";
  const std::map<std::string, double> published = {{"1f1b", .2431}, {"zb-h1", .1585}, {"zb-h2", .1083}};
  std::size_t compared = 0;
  for (const Json& row : rows_of("--stages 8 --microbatches 24 --schedule 1f1b,zb-h1,zb-h2" + times, "schedule")) {
    EXPECT_NEAR(row.at("bubble_of_span"), published.at(row.at("schedule")), 0.00005) << row;
    EXPECT_EQ(row.at("predicted_bubble_of_total").is_null(), row.at("schedule") != "1f1b") << row;
    ++compared;
  }
  EXPECT_EQ(compared, 3u);
  for (const Json& row : rows_of("--schedule naive,gpipe,interleaved --microbatches 4", "schedule")) {
    const std::string name = row.at("schedule");
    const double turns = name == "naive" ? 16 : name == "gpipe" ? 7 : 5.5;
    EXPECT_NEAR(row.at("makespan_seconds"), turns * 3e-3, 1e-9) << name;
    EXPECT_EQ(row.at("peak_in_flight"), name == "naive" ? 1 : name == "gpipe" ? 4 : 8) << name;
    EXPECT_EQ(row.at("chunks"), name == "interleaved" ? 2 : 1);
    if (name != "naive") {
      EXPECT_NEAR(row.at("predicted_bubble_of_total"), row.at("bubble_of_total"), 1e-9) << name;
      EXPECT_NEAR(row.at("predicted_bubble_of_ideal"), row.at("bubble_of_ideal"), 1e-9) << name;
    }
  }
}

TEST_F(BenchProgram, APipelinesChartTellsKindsOfWorkApart) {
  ASSERT_EQ(start("--json " + file("p.json") + " --no-chart --csv=" + file("p.csv"), "schedule"), 0) << err_;
  EXPECT_EQ(Json::parse(read(file("p.json"))).at("context").at("command_line"), "./lab pipeline --no-chart");
  ASSERT_EQ(start("--schedule 1f1b --stages 2 --microbatches 2 --comm-ms 0.5 --columns 67 --trace " + file("p.json"),
                  "schedule"),
            0)
      << err_;
  // 10 ms in 49 columns: F0 F1 from 0 to 2, then waiting for B0, which stage 1 ends at 4.5 and which is here at 5.
  EXPECT_NE(out_.find("stage  0 |F0───F1───wwww"), std::string::npos) << out_;
  EXPECT_NE(out_.find("B0═══"), std::string::npos) << out_;
  EXPECT_NE(out_.find("vv"), std::string::npos) << "activations on their way\n" << out_;
  EXPECT_NE(out_.find("^^"), std::string::npos) << "gradients on their way\n" << out_;
  std::size_t steps = 0;
  const Json document = Json::parse(read(file("p.json")));
  for (const Json& event : document.at("traceEvents"))
    if (event.value("cat", "") == "compute") {
      ++steps;
      EXPECT_TRUE(event.at("args").contains("first")) << "its place, for ./lab why: " << event;
    }
  EXPECT_EQ(steps, 8u);
}

TEST_F(BenchProgram, APipelineIsPlottedFromItsTrace) {
  const int code =
      start("--schedule zb-v --comm-ms 0.5 --stages 3 --microbatches 3 --plot " + file("v.svg"), "schedule");
  if (code == 2 && err_.find("needs a python3 with matplotlib") != std::string::npos) GTEST_SKIP() << err_;
  ASSERT_EQ(code, 0) << err_;
  const std::string svg = read(file("v.svg"));
  for (const char* part : {"stage 2", "forward", "backward, weight gradients", "waiting", "bytes moving", "down", "up"})
    EXPECT_NE(svg.find(fmt::format("<!-- {} -->", part)), std::string::npos) << part;  // next to each text's outlines
}

TEST_F(BenchProgram, AScheduleFileIsCheckedBeforeItRuns) {
  // Stages that swap the two backwards of GPipe: slower, and right.
  EXPECT_EQ(start("--schedule-file " + written(file("s.txt"), "# two stages\nF0 F1 B0 B1\nF0 F1 B0 B1\n"), "schedule"),
            0)
      << err_;
  for (const auto& [text, says] : {std::pair{"F0 F1 B0 B1\nF0 B0 F1 X1\n", "line 2: 'X1'"},
                                   {"F0 B0 F1 B1\nF0 F1 B1 B0\n", "B0"},
                                   {"B0 F0\nF0 B0\n", "stage 0 does B0 before F0"},
                                   {"F0 B0 F1 B1\nF1 F0 B1 B0\n", "a cycle"},
                                   {"F0 F999999 B0\n", "stage 0 has 3 steps"},
                                   {"F0 I0 F1 B1\n", "lacks W0 after I0"},
                                   {"F4294967296 B0\n", "line 1: 'F4294967296' is not a step"},
                                   {"F2147483647 B0\n", "line 1: 'F2147483647' is not a step"},
                                   {"F0.4294967296 B0\n", "'F0.4294967296' is not a step"},
                                   {"F0. B0\n", "'F0.' is not a step"},
                                   {"F+0 B0\n", "'F+0' is not a step"},
                                   {"", "no stage's line"}}) {
    expect_refused(start("--schedule-file " + written(file("s.txt"), text), "schedule"), text, says);
  }
  for (const auto& [arguments, says] :
       {std::pair{"--schedule 1f2b", "1f1b"},
        {"--stages -1", "--stages"},
        {"--stages 0", "--stages needs numbers from 1"},
        {"--stages two", "--stages"},
        {"--microbatches 0", "--microbatches"},
        {"--schedule interleaved --microbatches 6", "6 microbatches"},
        {"--chunks 2", "interleaved"},
        {"--stages 1 --schedule interleaved --chunks 2", "--chunks"},
        {"--forward-ms -1", "--forward-ms"},
        {"--forward-ms 0 --backward-ms 0 --weight-ms 0", "no time"},
        {"--schedule-file /nowhere", "/nowhere"},
        {"--schedule-file pipe.txt --chunks 3", "--chunks has no effect together with --schedule-file"},
        {"--columns 2147483647", "from 0 to 10000"},
        {"--microbatches 99999999999", "cannot be as large as"},
        {"--schedule gpipe,1f1b --plot /tmp/x.svg", "--plot"},
        {"--plot x.bmp", "ends in .svg, .pdf or .png"},
        {"--plot /nowhere/x.svg", "/nowhere/x.svg"}}) {
    expect_refused(start(arguments, "schedule"), arguments, says);
  }
}

/// 24.7's first pipeline, a heavy head: 4 stages of which the last takes 1.4 times as long, 8 microbatches, at most 4
/// in memory.
constexpr const char* k1F1B =
    "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7\nF0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7\n"
    "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7\nF0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7\n";

/// 1F1B with `from` replaced by `to`, each time that it occurs.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = k1F1B;
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

TEST_F(BenchProgram, ScheduleFilesAreRanked) {
  std::string halves = k1F1B;
  for (std::size_t at = 0; (at = halves.find('B', at)) != halves.npos;)
    halves.replace(at, 2, fmt::format("I{0} W{0}", halves[at + 1])), at += 5;
  const std::map<std::string, std::string> files{
      {"whole.txt", k1F1B},
      {"halves.txt", halves},
      {"crossed.txt", changed("F0 F1 F2 F3 B0 F4 B1 F5", "F0 F1 F2 F3 B1 F4 B0 F5")},
      {"missing.txt", changed("B6 B7\nF0 B0", "B6\nF0 B0")},
      {"greedy.txt", changed("F0 F1 F2 F3 B0 F4", "F0 F1 F2 F3 F4 B0")},
      {"locked.txt", changed("F0 F1 F2 F3 B0 F4", "F0 B0 F1 F2 F3 F4")},
      {"other.txt", "F0 B0\n"},
      {"vee.txt", "placement v\nF0.0 F0.1 B0.1 B0.0\nF0.0 F0.1 B0.1 B0.0\n"},
      {"none.txt", "X1\n"}};
  std::string all = file("nowhere.txt");
  for (const auto& [name, text] : files) all += "," + written(file(name.c_str()), text);
  EXPECT_EQ(start("--contest 1 --no-chart --schedule-file " + all + " --json " + file("c.json"), "schedule"), 2);
  // Places: the halves before both 1F1Bs, which share the second.
  const auto row = [&](const std::string& name) {
    const std::size_t table = out_.rfind("place  schedule"), at = out_.find(name, table), begin = out_.rfind('\n', at);
    return at == out_.npos ? name + " is missing" : out_.substr(begin + 1, out_.find('\n', at) - begin - 1);
  };
  EXPECT_EQ(row("halves.txt").substr(0, 7), "    1  ") << out_;
  EXPECT_EQ(row("whole.txt").substr(0, 7), "    2  ") << out_;
  EXPECT_EQ(row("(baseline)").substr(0, 7), "    2  ") << out_;
  for (const auto& [name, says] :
       {std::pair{"crossed.txt", "is of I0 where it is sent and of I1 where it is received"},
        {"missing.txt", "stage 2 has 15 steps"},
        {"greedy.txt", "stage 0 holds the activations of 5 microbatches at its peak, allowed 4"},
        {"locked.txt", "a cycle"},
        {"other.txt", "a schedule of 1 stage and 1 microbatch"},
        {"vee.txt", "a schedule of 2 stages and 1 microbatch, expected 4 stages and 8 microbatches"},
        {"none.txt", "'X1' is not a step"},
        {"nowhere.txt", "cannot read"}}) {
    EXPECT_NE(row(name).find("refused: "), std::string::npos) << row(name);
    EXPECT_NE(row(name).find(says), std::string::npos) << row(name);
  }
  const Json rows = Json::parse(read(file("c.json"))).at("rows");
  ASSERT_EQ(rows.size(), 3u);
  for (const Json& one : rows) {
    // The head's stage begins after three forwards and has 8 · 1.4 · 3 ms of work.
    EXPECT_NEAR(one.at("lower_bound_seconds"), 36.6e-3, 1e-9) << one;
    EXPECT_GT(one.at("makespan_seconds"), one.at("lower_bound_seconds")) << one;
  }
}

TEST_F(BenchProgram, StagesMayBeUnequalAndHaveLimits) {
  const std::string whole = written(file("whole.txt"), k1F1B);
  const auto makespan = [&](const std::string& more) {
    EXPECT_EQ(start(more + " --no-chart --json " + file("c.json"), "schedule"), 0) << err_;
    return Json::parse(read(file("c.json"))).at("rows").at(0).at("makespan_seconds").get<double>();
  };
  EXPECT_NEAR(makespan("--stage-work 1,1,1,1.4 --in-flight 4,3,2,1 --schedule-file " + whole),
              makespan("--contest 1 --schedule-file " + whole), 1e-12);
  EXPECT_NEAR(makespan("--stage-work 2,2,2,2 --schedule 1f1b"), 2 * makespan("--schedule 1f1b"), 1e-9);
  EXPECT_NEAR(makespan("--stage-work 2,2,2,2 --schedule zb-v"), 2 * makespan("--schedule zb-v"), 1e-9)
      << "chunks divide a stage's work";
  EXPECT_LT(makespan("--contest 1 --schedule zb-v"), makespan("--contest 1 --schedule 1f1b"))
      << "4 microbatches are 8 halves";
  for (const auto& [arguments, says] :
       {std::pair{std::string("--in-flight 4,3,2,1 --schedule zb-h1"),
                  "stage 1 holds the activations of 4 microbatches"},
        {"--in-flight 3 --schedule-file " + whole, "stage 0 holds the activations of 4 microbatches"},
        {"--contest 2 --schedule-file " + whole, "expected 6 stages and 12 microbatches"},
        {"--in-flight 3 --schedule zb-v",
         "stage 0 holds the activations of 8 microbatches × chunks at its peak, allowed 6"},
        {"--contest 6", "--contest needs numbers from 1 to 5"},
        {"--contest 1 --comm-ms 1", "--comm-ms has no effect together with --contest"},
        {"--stage-work 1,1 --schedule-file " + whole, "4 stages, expected 2"},
        {"--stage-work 1,0,1,1", "--stage-work"},
        {"--in-flight 0", "--in-flight"},
        {"--in-flight 1,2 --stage-work 1,1,1", "--in-flight"}}) {
    expect_refused(start(arguments, "schedule"), arguments, says);
  }
}

TEST_F(BenchProgram, ChunksInAVWaitForNobody) {
  for (const Json& row :
       rows_of("--stages 4 --microbatches 8 --schedule 1f1b,zb-h2,zb-v,dualpipev --no-chart", "schedule")) {
    const std::string name = row.at("schedule");
    EXPECT_NEAR(row.at("makespan_seconds"), name == "1f1b" ? 33e-3 : name == "zb-h2" ? 27e-3 : 25.5e-3, 1e-9) << name;
    EXPECT_NEAR(row.at("longest_span_seconds"), name == "1f1b" ? 33e-3 : name == "dualpipev" ? 25.5e-3 : 24e-3, 1e-9);
    EXPECT_EQ(row.at("peak_in_flight"), name == "1f1b" ? 4 : name == "zb-h2" ? 7 : name == "zb-v" ? 8 : 9) << name;
    EXPECT_EQ(row.at("messages"), row.at("chunks") == 2 ? 96 : 48) << name;
    EXPECT_LE(row.at("lower_bound_seconds"), row.at("makespan_seconds")) << name;
  }
  EXPECT_EQ(start("--schedule zb-v --stages 1", "schedule"), 2);
  EXPECT_EQ(start("--schedule zb-v --chunks 3", "schedule"), 2);
  EXPECT_NE(err_.find("two chunks per stage in a V"), std::string::npos) << err_;
}

TEST_F(BenchProgram, EveryBubbleIsThatOfItsFormula) {
  std::size_t whole = 0, zero = 0, account = 0, memory = 0;
  for (const Json& row : rows_of("--stages 2,4,8 --comm-ms 0", "pipeline")) {
    for (const char* bubble : {"bubble_of_ideal", "bubble_of_total", "bubble_of_span"})
      if (const Json& predicted = row.at(std::string("predicted_") + bubble); !predicted.is_null()) {
        ASSERT_NEAR(row.at(bubble), predicted, 1e-9) << bubble << " of " << row;
        (row.at("schedule").get<std::string>().starts_with("zb") ? zero : whole)++;
      }
    const double parts = row.at("busy_seconds").get<double>() + row.at("idle_seconds").get<double>() +
                         row.at("waiting_seconds").get<double>();
    ASSERT_NEAR(parts, row.at("makespan_seconds"), 1e-9) << row;
    account += row.at("waiting_seconds") > 0;
    for (const char* mean : {"busy_seconds", "idle_seconds", "waiting_seconds", "wire_seconds"}) {
      const auto stages = row.at(std::string("stage_") + mean).get<std::vector<double>>();
      ASSERT_EQ(stages.size(), row.at("stages"));
      ASSERT_NEAR(std::accumulate(stages.begin(), stages.end(), 0.0) / stages.size(), row.at(mean), 1e-9) << row;
    }
    // Boundaries in flight, of one element, come on top of what microbatches leave.
    ASSERT_NEAR(row.at("activation_bytes_peak"), row.at("predicted_activation_bytes"), 64) << row;
    const int p = row.at("stages"), m = row.at("microbatches");
    if (row.at("schedule") == "gpipe" || row.at("schedule") == "1f1b") {
      ASSERT_EQ(row.at("peak_in_flight"), row.at("schedule") == "gpipe" ? m : std::min(p, m)) << row;
      for (int s = 0; s < p; ++s)
        ASSERT_EQ(row.at("stage_peak_in_flight")[s], row.at("schedule") == "gpipe" ? m : std::min(p - s, m)) << row;
      ++memory;
    }
  }
  EXPECT_EQ(memory, 36u);
  EXPECT_GT(whole, 150u);
  EXPECT_GT(zero, 10u);
  EXPECT_GT(account, 50u);
}

TEST_F(BenchProgram, UnequalStagesWaitForTheSlowest) {
  std::map<double, double> makespan;
  for (const Json& row :
       rows_of("--stages 4 --microbatches 8 --comm-ms 0 --schedule gpipe,1f1b --last-stage 1,2", "pipeline")) {
    const double factor = row.at("last_stage"), seconds = row.at("makespan_seconds"), used = row.at("utilisation");
    // One turn of 3 ms · 4/(3 + f) for each stage but the last, f of them there; then one of f each.
    EXPECT_NEAR(seconds, 12e-3 + 7 * factor * 12e-3 / (3 + factor), 1e-9) << row;
    EXPECT_NEAR(row.at("bubble_of_ideal"), row.at("predicted_bubble_of_ideal"), 1e-9) << row;
    EXPECT_NEAR(used, 24e-3 / seconds, 1e-9) << "the work is the same";
    makespan[factor] = seconds;
  }
  EXPECT_GT(makespan.at(2), 1.3 * makespan.at(1));
}

TEST_F(BenchProgram, HopsPartGPipeAnd1F1B) {
  std::map<std::string, double> seconds;
  for (const Json& row : rows_of("--stages 4 --microbatches 32 --comm-ms 0.1 --schedule gpipe,1f1b", "pipeline")) {
    seconds[row.at("schedule")] = row.at("makespan_seconds");
    EXPECT_NEAR(row.at("wire_seconds"), 32 * 6 * 0.1e-3 / 4, 1e-9) << "each of 4 stages' messages, 6 hops a microbatch";
  }
  EXPECT_NEAR(seconds.at("gpipe"), 105e-3 + 6 * 0.1e-3, 1e-9);
  EXPECT_GT(seconds.at("1f1b"), seconds.at("gpipe") + 4e-3);
  for (const auto& [arguments, says] : {std::pair{"--schedule gpip", "gpipe"},
                                        {"--stages 0", "--stages"},
                                        {"--microbatches 1.5", "--microbatches"},
                                        {"--comm-ms -1", "--comm-ms"},
                                        {"--forward-ms 0", "--forward-ms"},
                                        {"--last-stage 0", "--last-stage"},
                                        {"--chunks 1", "--chunks"}}) {
    EXPECT_EQ(start(arguments, "pipeline"), 2) << arguments;
    EXPECT_NE(err_.find(says), std::string::npos) << err_;
  }
}

}  // namespace
}  // namespace lockstep::bench
