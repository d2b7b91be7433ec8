// Tests of exercise 24.1: parts of equal cost; and an interpreter that runs any schedule, sends early, receives late,
// and never hangs.
#include "labs/week24_pipeline/stages.hpp"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "common/testing/answered.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "labs/week24_pipeline/counting_stage_testing.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24::stages_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto partition = testing::answer<week24::partition>;

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

// Part a --------------------------------------------------------------------------------------------------------------

double largest_part(const std::vector<double>& costs, const std::vector<std::size_t>& first) {
  double largest = 0;
  for (std::size_t k = 0; k + 1 < first.size(); ++k)
    largest = std::max(largest, std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(first[k]),
                                                costs.begin() + static_cast<std::ptrdiff_t>(first[k + 1]), 0.0));
  return largest;
}

/// Tries every way to cut layers [from, end) into `parts`.
double best_by_trying(const std::vector<double>& costs, std::size_t from, int parts) {
  if (parts == 1) return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(from), costs.end(), 0.0);
  double best = 1e300, mine = 0;
  for (std::size_t end = from + 1; end + static_cast<std::size_t>(parts) - 1 <= costs.size(); ++end) {
    mine += costs[end - 1];
    best = std::min(best, std::max(mine, best_by_trying(costs, end, parts - 1)));
  }
  return best;
}

TEST(Lab24_1a, TheLargestPartIsAsSmallAsItCanBe) {
  std::vector<std::vector<double>> models = {{1},          {1, 1, 1, 1},          {3, 1, 1, 1, 1, 1},
                                             {1, 2, 3, 4}, {5, 1, 1, 1, 1, 1, 9}, {2, 2, 2, 2, 7, 2, 2, 2, 2, 1}};
  for (unsigned seed = 1; seed <= 20; ++seed) {  // whole numbers: their sums are exact in any order
    std::mt19937 random(seed + static_cast<unsigned>(testing::drawn({24, 4, seed}, 1u << 30)));
    models.emplace_back();
    const std::size_t layers = 3 + seed % 7 + testing::drawn({24, 7, seed}, 4);
    for (std::size_t layer = 0; layer < layers; ++layer) models.back().push_back(1 + random() % 20);
  }
  for (const std::vector<double>& costs : models)
    for (int parts = 1; parts <= static_cast<int>(costs.size()); ++parts) {
      const std::vector<std::size_t> first = partition(costs, parts);
      ASSERT_EQ(first.size(), static_cast<std::size_t>(parts) + 1) << "one more element than parts";
      ASSERT_EQ(first.front(), 0u) << "the first part begins with layer 0";
      ASSERT_EQ(first.back(), costs.size()) << "the last part ends with the last layer";
      for (std::size_t k = 0; k + 1 < first.size(); ++k)
        if (first[k] >= first[k + 1])
          FAIL() << "layers that cost " << fmt::format("{}", fmt::join(costs, " ")) << ", in " << parts
                 << " parts: part " << k << " is empty: layers [" << first[k] << ", " << first[k + 1] << ")";
      if (const double found = largest_part(costs, first), best = best_by_trying(costs, 0, parts); found != best)
        FAIL() << "layers that cost " << fmt::format("{}", fmt::join(costs, " ")) << ", in " << parts
               << " parts: the largest part costs " << found << ", which is not as small as it can be: " << best;
    }
}

TEST(Lab24_1a, FewerLayersThanStagesAreRefused) {
  partition({1, 1}, 2);
  try {
    partition({1, 1, 1}, 4);
    ADD_FAILURE() << "3 layers on 4 stages were accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(error.verdict() == Verdict::usage && text.find("3 layers") != text.npos &&
                text.find("4 stages") != text.npos)
        << "the refusal is a USAGE error that names \"3 layers\" and \"4 stages\". It says: "
        << text.substr(text.find("): ") + 3);
  }
}

// Part b --------------------------------------------------------------------------------------------------------------

/// A case's size is the number of microbatches. Boundaries are long enough to wait for their receive.
testing::CaseProgram counting(MakeStage make, int chunks) {
  return [=](Rank me, const Case& c) {
    const PipelineShape shape{c.ranks, static_cast<int>(c.size), chunks};
    const Pipeline pipeline = make_pipeline(me, shape);
    CountingStage stage(me, shape, 5000);
    run_schedule(pipeline, make(shape, me.rank()), stage);
    return stage.seen();
  };
}

void run_counting(MakeStage make, int chunks = 1, bool multiples = false) {
  CasePlan plan;
  plan.ranks = chunks == 1 ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{2, 3, 4};
  plan.sizes = [=](int ranks) {
    const auto p = static_cast<std::size_t>(ranks);
    // Chunk after chunk, no boundary may have to wait for the next round.
    const std::size_t more = chunks == 1 ? testing::drawn({24, 5, p}, 5) : 0;
    return multiples ? std::vector<std::size_t>{p, (2 + more) * p} : std::vector<std::size_t>{1, 2, 5 + more};
  };
  plan.unit = "microbatch";
  plan.queues = true;
  run_cases(
      counting(make, chunks),
      [=](const Case& c, const Outcome& outcome) {
        return wrong_counts({c.ranks, static_cast<int>(c.size), chunks}, outcome);
      },
      plan);
}

StageSchedule forward_then_backward(const PipelineShape& shape,
                                    int) {  // the suite's own, so that this test is 24.1's alone
  StageSchedule steps;
  for (Work work : {Work::forward, Work::backward})
    for (int m = 0; m < shape.microbatches; ++m) steps.push_back({work, m});
  return steps;
}
StageSchedule halves(const PipelineShape& shape, int) {
  StageSchedule steps;
  for (Work work : {Work::forward, Work::input_gradient, Work::weight_gradient})
    for (int m = 0; m < shape.microbatches; ++m) steps.push_back({work, m});
  return steps;
}
StageSchedule chunk_after_chunk(const PipelineShape& shape, int) {
  StageSchedule steps;
  for (int c = 0; c < shape.chunks; ++c)
    for (int m = 0; m < shape.microbatches; ++m) steps.push_back({Work::forward, m, c});
  for (int c = shape.chunks; c-- > 0;)
    for (int m = 0; m < shape.microbatches; ++m) steps.push_back({Work::backward, m, c});
  return steps;
}

TEST(Lab24_1b, EveryMicrobatchGoesThroughEveryStage) { run_counting(forward_then_backward); }
TEST(Lab24_1b, BackwardInHalves) { run_counting(halves); }
TEST(Lab24_1b, ChunksGoRound) { run_counting(chunk_after_chunk, 3); }

/// While a stage computes, the next microbatch arrives and the last one leaves: a hop is paid for once, not for each
/// microbatch. Where nothing is buffered, that needs a receive that was posted before its step.
TEST(Lab24_1b, TransfersRunBesideTheWork) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  for (const bool buffered : {true, false})
    for (const PipelineShape& shape : {PipelineShape{2, 8}, PipelineShape{4, 8}}) {
      const StepTimes times{1e-3, 1e-3, 1e-3, 0.4e-3};
      const Schedule schedule = all_stages(forward_then_backward, shape);
      double seconds = 0, ideal = 0;
      const auto timed = [&] { return run_timed(schedule, shape, times, {.buffered = buffered}).stages; };
      const std::string which = fmt::format("a run of {} stages, {}", shape.stages, buffered ? "buffered" : "waiting");
      for (const StageUse& stage : testing::answered(which, timed)) seconds = std::max(seconds, stage.end);
      for (const auto& stage : time_schedule(schedule, shape, times)) ideal = std::max(ideal, stage.back().end);
      if (!(std::abs(seconds - ideal) <= 1e-9))
        FAIL() << where(shape) << "the run takes " << ms(seconds) << "; with every transfer beside the work "
               << ms(ideal) << ". Does main wait for a send, or is a receive posted only when its step begins?";
    }
}

/// A link that needs longer for a boundary than a stage for a step: main continues while two sends are in flight.
TEST(Lab24_1b, MainWaitsForNoSendThatHasJustBegun) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  const PipelineShape shape{2, 3};
  RunOptions options{.ranks = 2, .machine = timed_machine(0), .phantom = true};
  options.machine.eager_bytes = 0;
  options.machine.levels.front().bytes_per_second = 4 / 1.5e-3;  // a boundary of TimedStage is one element
  const auto program = [&](Rank me) {
    const Pipeline pipeline = make_pipeline(me, shape);
    TimedStage stage(me, {1e-3, 1e-3, 1e-3, 0});
    run_schedule(pipeline, forward_then_backward(shape, me.rank()), stage);
    return stage.when();
  };
  const Outcome outcome = testing::run_answered(options, program);
  outcome.check();
  for (int m = 0; m < shape.microbatches; ++m)
    if (const double begin = outcome.values[0].at(static_cast<std::size_t>(2 * m));
        !(std::abs(begin - m * 1e-3) <= 1e-9))
      FAIL()
          << where(shape) << "stage 0 begins F" << m << " after " << ms(begin) << ", expected " << m
          << " ms. A forward takes 1 ms and a hop 1.5 ms: does main wait for the previous send, which is in transit?";
}

TEST(Lab24_1b, NoMoreThanOneReceiveAhead) {
  const PipelineShape shape{2, 8};
  const auto program = [&](Rank me, const Case&) {
    const Pipeline pipeline = make_pipeline(me, shape);
    TimedStage stage(me, {1e-3, 1e-3, 1e-3, 0}, 1000);
    run_schedule(pipeline, forward_then_backward(shape, me.rank()), stage);
    return Values{};
  };
  CasePlan plan;
  plan.ranks = {2};
  plan.sizes = sizes_of({8});
  plan.unit = "microbatch";
  plan.simulator_only = "phantom";
  plan.adjust = [](const Case&, RunOptions& options) {
    options.phantom = true;
    options.machine = timed_machine(0);
  };
  run_cases(
      program,
      [](const Case&, const Outcome& outcome) -> std::string {
        for (int rank = 0; rank < 2; ++rank)
          // This model keeps nothing: what lives is in flight.
          if (const auto held = outcome.ledgers[rank].memory.peak_of(Category::activation); held > 5 * 4000)
            return fmt::format(
                "stage {} held {} boundaries at once: two received, one computed and two in transit are enough; main "
                "must wait for sends that have long arrived",
                rank, held / 4000);
        return "";
      },
      plan);
}

}  // namespace
}  // namespace lockstep::week24::stages_test
