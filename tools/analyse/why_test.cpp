// ./lab why names the bottleneck that was planted in a run; and the commands from outside: files, rows, bad input.
#include "common/analysis/why.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "common/arithmetic.hpp"
#include "common/backends/sim/host_time.hpp"
#include "common/support/tests/program_testing.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week24_pipeline/gpipe.hpp"
#include "labs/week24_pipeline/one_f_one_b.hpp"
#include "labs/week24_pipeline/timed_stage.hpp"
#include "tools/calculators/schedule_chart.hpp"
#include "tools/train/program.hpp"

namespace lockstep {
namespace {

using analysis::Cost;
using analysis::Why;
using train::TrainRequest;

Why why_of_training(TrainRequest options) {
  options.phantom = true;
  options.trace = "/dev/null";
  options.sample = 0;
  const train::TrainPlan plan = train::make_plan(options, 0);
  train::TrainLog log(plan, nullptr);
  checkpoint::Disk disk;
  train::StopSignals no_signals(false);
  const Outcome outcome = run(plan.run, [&](Rank me) { return train::train_rank(me, plan, log, disk, no_signals); });
  return analysis::why(outcome.check().trace);
}

TrainRequest training(const char* model, int ranks, const char* machine) {
  TrainRequest options;
  options.model = model;
  options.ranks = ranks;
  options.machine = machine;
  options.steps = 3;
  options.batch = 8;
  return options;
}

void expect_limit(const Why& why, Cost limit, const char* word) {
  EXPECT_EQ(why.limit, limit) << why.sentence;
  EXPECT_NE(why.sentence.find(word), std::string::npos) << why.sentence;
  // The time between steps lets one rank begin earlier than another, and is not replayed.
  EXPECT_NEAR(why.seconds / why.recorded_seconds, 1, 0.05) << why.sentence;
  EXPECT_EQ(std::count(why.sentence.begin(), why.sentence.end(), '\n'), 0);
}

TEST(Why, DdpWithoutOverlapOnASlowLinkIsLimitedByCommunication) {
  TrainRequest options = training("gpt2-124m", 4, "pcie-box-10gbe");
  options.no_overlap = true;
  const Why why = why_of_training(options);
  expect_limit(why, Cost::communication, "communication");
  for (const analysis::RankUse& use : why.use) EXPECT_LT(use.hidden, 0.05 * use.moving);
  // The same run with the overlap gains less: some of it is hidden already.
  options.no_overlap = false;
  const Why overlapped = why_of_training(options);
  EXPECT_LT(overlapped.gain(Cost::communication).seconds, overlapped.seconds);
  EXPECT_LT(overlapped.gain(Cost::communication).gained, why.gain(Cost::communication).gained);
  EXPECT_GT(overlapped.use[0].hidden, 0.2 * why.use[0].arithmetic);
}

Why why_of_pipeline(int stages, int microbatches, int slow_stage = -1) {
  const PipelineShape shape{stages, microbatches};
  const Schedule schedule = [&] {
    Schedule all;
    for (int s = 0; s < stages; ++s) all.push_back(week24::one_f_one_b(shape, s));
    return all;
  }();
  RunOptions options{.ranks = stages, .phantom = true, .check_races = false, .trace = true};
  options.machine = week24::timed_machine(1e-6);
  const Outcome outcome = run(options, [&](Rank me) {
    const week24::Pipeline pipeline = week24::make_pipeline(me, shape);
    const double slower = me.rank() == slow_stage ? 2 : 1;
    week24::TimedStage stage(me, {slower * 1e-3, slower * 1e-3, slower * 1e-3, 0});
    week24::run_schedule(pipeline, schedule[static_cast<std::size_t>(me.rank())], stage);
  });
  return analysis::why(outcome.check().trace);
}

TEST(Why, APipelineOfFewMicrobatchesIsLimitedByItsBubble) {
  const Why why = why_of_pipeline(4, 2);
  expect_limit(why, Cost::bubble, "bubble");
  // Formula: the gain is a bubble of (p − 1)/(m + p − 1) of the whole.
  EXPECT_NEAR(why.gain(Cost::bubble).gained, 3.0 / 5, 0.01);
  EXPECT_NEAR(why_of_pipeline(4, 64).gain(Cost::bubble).gained, 3.0 / 67, 0.01);
}

TEST(Why, SoIsATrainersPipelineOfFewMicrobatches) {
  TrainRequest options = training("gpt2-124m", 4, "dgx-a100");
  options.precision = "bf16";
  options.pp = 4;
  options.batch = 4;
  options.microbatches = 4;
  expect_limit(why_of_training(options), Cost::bubble, "bubble");
}

TEST(Why, UnequalStagesAndUnequalShardsAreImbalance) {
  const Why stages = why_of_pipeline(4, 32, 2);
  expect_limit(stages, Cost::imbalance, "imbalance");
  EXPECT_NE(stages.sentence.find("rank 2 computes"), std::string::npos) << stages.sentence;
  TrainRequest options = training("gpt2-355m", 4, "dgx-a100");
  options.precision = "bf16";
  options.batch = 5;  // shards of 2, 1, 1 and 1
  const Why shards = why_of_training(options);
  expect_limit(shards, Cost::imbalance, "imbalance");
  EXPECT_NE(shards.sentence.find("rank 0 computes"), std::string::npos) << shards.sentence;
}

TEST(Why, AModelTooSmallIsLimitedByItsLaunches) {
  for (int ranks : {1, 2}) {
    TrainRequest options = training("tiny", ranks, "dgx-h100");
    options.d_model = options.sequence = 16;
    options.heads = 2;
    options.precision = "bf16";
    options.batch = 2;
    const Why why = why_of_training(options);
    expect_limit(why, Cost::launch, "launch");
    EXPECT_GT(why.use[0].launch, 0.5 * why.use[0].arithmetic);
  }
}

TEST(Why, WhereNothingElseDoesArithmeticLimits) {
  TrainRequest options = training("gpt2-124m", 1, "laptop");
  options.batch = 2;
  expect_limit(why_of_training(options), Cost::arithmetic, "arithmetic");
}

TEST(Why, WhatLabPipelineDrawsCanBeReplayed) {
  const PipelineShape shape{4, 8};
  Schedule schedule;
  for (int s = 0; s < shape.stages; ++s) schedule.push_back(week24::one_f_one_b(shape, s));
  const week24::TimedRun timed = week24::run_timed(schedule, shape, {1e-3, 1e-3, 1e-3, 0}, {.trace = true});
  const Why why = analysis::why(bench::named_trace(timed, shape));
  expect_limit(why, Cost::bubble, "bubble");
  EXPECT_NEAR(why.seconds, 33e-3, 1e-6);
  EXPECT_TRUE(why.operations.contains("B0")) << "steps have their names";
}

TEST(Why, ARankThatLoadsForLongIsNamed) {
  const Outcome outcome = run({.ranks = 3, .trace = true}, [](Rank me) {
    Slice data = me.allocate(1000, DType::f32, Category::gradient);
    for (int step = 0; step < 3; ++step) {
      auto phase = me.region("step");
      {
        auto loading = me.region("data");
        if (me.rank() == 1) pass_host_time(me, 0.25);
      }
      fill(me, data, 1);
      week21::ring_all_reduce(me, data);
    }
  });
  const Why why = analysis::why(outcome.check().trace);
  expect_limit(why, Cost::data, "rank 1 loads data for 250 ms per step");
  EXPECT_NEAR(why.use[1].loading, 0.25, 1e-9);
  EXPECT_EQ(why.use[0].loading, 0);
  const std::string text = format_why(why);
  EXPECT_NE(text.find("\n   1 "), std::string::npos) << "a line a rank: " << text;
}

/// The programs behind ./lab why and ./lab diff.
class TraceProgram : public ProgramTest {
 protected:
  int start(const std::string& program, const std::string& arguments) {
    return execute(LOCKSTEP_PROGRAMS "/" + program + " " + arguments);
  }
  void train(const std::string& arguments) {
    ASSERT_EQ(start("train_sim", "--model tiny --phantom --steps 2 --sample 0 " + arguments), 0) << err_;
  }
};

TEST_F(TraceProgram, WhyReadsAFileAndWritesRows) {
  train("--ranks 2 --machine dgx-h100 --d-model 16 --heads 2 --sequence 16 --batch 2 --trace " + file("a.json"));
  ASSERT_EQ(start("why", "why " + file("a.json") + " --json " + file("rows.json")), 0) << err_;
  EXPECT_NE(out_.find("limit     launch overhead"), std::string::npos) << out_;
  EXPECT_NE(out_.find("critical path"), std::string::npos) << out_;
  int limits = 0, ranks = 0;
  for (const Json& row : documented_rows(file("rows.json"))) {
    if (row.contains("cost")) {
      EXPECT_NEAR(1 - row.at("seconds_without").get<double>() / row.at("seconds").get<double>(), row.at("gained"),
                  1e-9);
      if (row.at("limit").get<bool>()) {
        ++limits;
        EXPECT_EQ(row.at("cost"), "launch");
      }
    }
    ranks += row.contains("operations");
  }
  EXPECT_EQ(limits, 1);
  EXPECT_EQ(ranks, 2);
}

TEST_F(TraceProgram, DiffRanksWhatAnotherMachineDoesSlower) {
  train("--ranks 2 --machine pcie-box --trace " + file("a.json"));
  train("--ranks 2 --machine pcie-box-10gbe --trace " + file("b.json"));
  ASSERT_EQ(start("why", "diff " + file("a.json") + " " + file("b.json") + " --json " + file("rows.json")), 0) << err_;
  EXPECT_NE(out_.find("the largest differences"), std::string::npos) << out_;
  for (const Json& row : documented_rows(file("rows.json")))
    if (row.contains("pairs")) {
      EXPECT_EQ(row.at("only_a"), 0) << row;
    }
  ASSERT_EQ(start("why", "diff " + file("a.json") + " " + file("a.json") + " --top 1"), 0) << err_;
  EXPECT_NE(out_.find("B − A\n  none\n"), std::string::npos) << out_;
}

TEST_F(TraceProgram, ARunThatStoppedLeavesItsTrace) {
  const std::string run = "--model tiny --batch 2 --sequence 16 --sample 0 --threads 1 --ranks 2 ";
  ASSERT_EQ(start("train_sim", run + "--steps 2 --checkpoint " + file("saved")), 0) << err_;
  ASSERT_NE(start("train_sim", run + "--steps 1 --resume " + file("saved") + " --trace " + file("a.json")), 0);
  ASSERT_EQ(start("why", "why " + file("a.json")), 0) << err_;
  EXPECT_EQ(out_.substr(0, 10), "stopped   ") << out_;
  EXPECT_NE(out_.find("use --steps with more than 1"), std::string::npos) << out_;
  EXPECT_EQ(out_.find("limits this run"), std::string::npos) << out_;
}

TEST_F(TraceProgram, WhyRefusesAPictureOfARun) {
  train("--ranks 2 --trace " + file("a.json"));
  // A trace that was made for a chart: an operation in it lacks its place in the program.
  const auto text = std::regex_replace(read(file("a.json")), std::regex(R"(("cat": ?"compute".*?"args": ?\{)[^}]*\})"),
                                       "$1\"where\": \"\"}", std::regex_constants::format_first_only);
  std::ofstream(file("chart.json")) << text;
  EXPECT_EQ(start("why", "why " + file("chart.json")), 2) << out_;
  EXPECT_NE(err_.find("cannot be replayed"), std::string::npos) << err_;
}

TEST_F(TraceProgram, BadInputIsOneSentence) {
  train("--ranks 2 --trace " + file("two.json"));
  train("--ranks 3 --trace " + file("three.json"));
  std::ofstream(file("text")) << "hello";
  std::ofstream(file("none.json")) << R"({"otherData": {"program": "lockstep"}, "traceEvents": []})";
  for (const std::string& arguments :
       {std::string("why"), "why " + file("nowhere"), "why " + file("text"), "why " + file("none.json"),
        "why " + file("two.json") + " --wrong", "why " + file("two.json") + " --step nope",
        "why " + file("two.json") + " --top 3", "diff " + file("two.json") + " " + file("two.json") + " --step step",
        "why " + file("two.json") + " --json /nowhere/x.json", "diff " + file("two.json"),
        "diff " + file("two.json") + " " + file("three.json"), "diff " + file("two.json") + " " + file("text"),
        "diff " + file("two.json") + " --top many"}) {
    expect_refused(start("why", arguments), arguments);
  }
}

}  // namespace
}  // namespace lockstep
