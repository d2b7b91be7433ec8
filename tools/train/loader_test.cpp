// --load-rate and --load-ahead: what a step waits for its batch, by closed formulas, and that nothing else changes.
#include "tools/train/loader.hpp"

#include <gtest/gtest.h>

#include "common/analysis/why.hpp"
#include "common/support/text/units.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

/// Two replicas of 4 rows of 16 tokens each.
TrainRequest loading_run(double load_rate, int load_ahead) {
  TrainRequest options = small_run();
  options.steps = 12;
  options.batch = 8;
  options.ranks = 2;
  options.log_every = 1000;
  options.validate_every = 1000;
  options.load_rate = load_rate;
  options.load_ahead = load_ahead;
  return options;
}
constexpr double kTokens = 4 * 16;

struct Timed {
  std::vector<StepRecord> records;
  Outcome outcome;
  Memory predicted;
};

/// `late_rank` loads ten times as long as the others; −1: none.
Timed timed(const TrainRequest& options, int late_rank = -1) {
  TrainPlan plan = make_plan(options, 0);
  plan.run.trace = true;
  plan.pass_time = pass_loading_time;
  TrainLog log(plan, nullptr);
  StopSignals signals(false);
  checkpoint::Disk disk;
  Timed result;
  result.outcome = run(plan.run, [&](Rank me) {
    TrainPlan mine = plan;
    if (me.rank() == late_rank) mine.request.load_rate /= 10;
    return train_rank(me, mine, log, disk, signals);
  });
  result.outcome.check();
  result.records = log.records();
  result.predicted = plan.training_peak;
  return result;
}

/// Seconds from the beginning of a step in the middle of the run to that of the next; all steps there are equal.
double middle_step(const Timed& run) {
  const analysis::Steps steps = analysis::steps_of(run.outcome.trace);
  std::vector<double> begins;
  for (const TraceEvent* step : steps.by_rank.at(0)) begins.push_back(step->begin);
  EXPECT_NEAR(begins.at(6) - begins.at(5), begins.at(7) - begins.at(6), 1e-12);
  return begins[7] - begins[6];
}

/// Mean seconds to copy a batch that was loaded ahead.
double copy_seconds(const Timed& run) {
  double seconds = 0;
  for (const TraceEvent& e : run.outcome.trace.events)
    if (e.rank == 0 && e.compute() && e.where.find("loader.cpp") != e.where.npos) seconds += e.end - e.begin;
  return seconds / static_cast<double>(run.records.size());
}

TEST(Loader, StepsTakeTheLongerOfLoadingAndComputing) {
  const double compute = middle_step(timed(loading_run(0, 0)));
  for (const double load : {compute / 8, compute / 2, compute * 0.999, compute * 1.1, 4 * compute}) {
    const double rate = kTokens / load;
    EXPECT_NEAR(middle_step(timed(loading_run(rate, 0))), load + compute, 1e-12) << "one after the other";
    const Timed one = timed(loading_run(rate, 1));
    const double copy = copy_seconds(one);
    EXPECT_GT(copy, 0);
    EXPECT_NEAR(middle_step(one), copy + std::max(load, compute), 1e-12)
        << "the next load begins when its place is free";
    for (const int ahead : {2, 3})
      EXPECT_NEAR(middle_step(timed(loading_run(rate, ahead))), std::max(load, copy + compute), 1e-12) << ahead;
  }
}

TEST(Loader, NumbersOfTheHandout) {
  struct Row {
    double rate;
    int ahead;
    const char* step;
    analysis::Cost limit;
  };
  using analysis::Cost;
  for (const Row& row : std::vector<Row>{{0, 0, "2.32 ms", Cost::arithmetic},
                                         {1e5, 0, "3.60 ms", Cost::data},
                                         {1e5, 1, "2.33 ms", Cost::arithmetic},
                                         {2.5e4, 1, "5.12 ms", Cost::data}}) {
    TrainRequest options = loading_run(row.rate, row.ahead);
    options.sequence = 0;
    const Timed run = timed(options);
    EXPECT_EQ(format_seconds(middle_step(run)), row.step) << row.rate;
    EXPECT_EQ(analysis::why(run.outcome.trace).limit, row.limit) << row.rate;
  }
}

TEST(Loader, TheFirstStepWaitsForItsWholeBatch) {
  const Timed run = timed(loading_run(kTokens / 0.5, 3));
  EXPECT_NEAR(run.records.front().loading_seconds, 0.5 + copy_seconds(run), 1e-9);
}

TEST(Loader, LossesAreThoseOfTheRunThatLoadsNothingAhead) {
  const auto expect_equal = [](const TrainRequest& with) {
    TrainRequest without = with;
    without.load_ahead = 0;
    without.load_rate = 0;
    const Trained a = train(with), b = train(without);  // with the race checker
    EXPECT_EQ(a.losses, b.losses);
    EXPECT_EQ(a.squares, b.squares);
    EXPECT_EQ(a.validation, b.validation);
  };
  for (const int ahead : {1, 2, 100}) {
    TrainRequest options = loading_run(1e4, ahead);
    options.validate_every = 3;
    expect_equal(options);
    options.batch = 7;  // unequal shards
    set_mesh(options, 2, 1, 2);
    options.ranks = 0;
    options.microbatches = 3;
    expect_equal(options);
    set_mesh(options, 0, 2, 1);
    options.cp = 2;
    options.microbatches = 1;
    expect_equal(options);
  }
}

TEST(Loader, TheLedgerHasTheBatchesThatWait) {
  const Timed none = timed(loading_run(0, 0));
  for (const int ahead : {1, 4}) {
    const Timed run = timed(loading_run(0, ahead));
    const auto batch = static_cast<std::uint64_t>(2 * 4 * kTokens);  // tokens and targets, 4 bytes each
    const auto waiting = static_cast<std::uint64_t>(ahead) * batch;
    EXPECT_EQ(run.predicted.peak_of(Category::buffer), none.predicted.peak_of(Category::buffer) + waiting);
    for (const int rank : {0, 1}) {
      const auto at = static_cast<std::size_t>(rank);
      EXPECT_EQ(run.outcome.ledgers[at].memory.peak_of(Category::buffer),
                none.outcome.ledgers[at].memory.peak_of(Category::buffer) + waiting);
      const RegionTotal* data = run.outcome.ledgers[at].region("data");
      ASSERT_TRUE(data);
      EXPECT_EQ(data->visits, 12u) << "no batch after the last step";
    }
  }
}

TEST(Loader, WhyNamesTheRankWhoseInputIsLate) {
  const double compute = middle_step(timed(loading_run(0, 0))), load = 0.3 * compute;
  for (const int ahead : {0, 1, 3}) {
    const Timed run = timed(loading_run(kTokens / load, ahead), 1);
    const analysis::Why why = analysis::why(run.outcome.trace);
    EXPECT_EQ(why.limit, analysis::Cost::data) << why.sentence;
    EXPECT_NE(why.sentence.find("rank 1 loads data for " + format_seconds(10 * load)), why.sentence.npos)
        << why.sentence;
    EXPECT_NEAR(why.use[0].loading, load, 1e-9) << ahead;
    EXPECT_NEAR(why.use[1].loading, 10 * load, 1e-9) << ahead;
    EXPECT_NEAR(why.seconds, why.recorded_seconds, 1e-9 + 0.01 * why.seconds) << "the replay is the run";
    const double without = why.gain(analysis::Cost::data).seconds;
    EXPECT_NEAR(without, compute + (ahead > 0 ? copy_seconds(run) : 0), 0.02 * compute);
  }
}

TEST(Loader, WhyIsSilentAboutInputThatIsHidden) {
  const double compute = middle_step(timed(loading_run(0, 0)));
  for (const int ahead : {1, 3}) {
    const Timed run = timed(loading_run(kTokens / (0.9 * compute), ahead));
    const analysis::Why why = analysis::why(run.outcome.trace);
    EXPECT_NE(why.limit, analysis::Cost::data) << why.sentence;
    EXPECT_NEAR(why.seconds, why.recorded_seconds, 1e-3 * why.seconds);
    EXPECT_NEAR(why.gain(analysis::Cost::data).gained, 0, 1e-3);
    EXPECT_NEAR(why.use[0].loading, 0.9 * compute, 1e-9) << "it loads all the same";
  }
}

}  // namespace
}  // namespace lockstep::train
