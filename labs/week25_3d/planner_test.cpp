// Tests of exercise 25.3: each formula against week 24's schedules and week 21's rings, then the whole on GPT-3.
#include "labs/week25_3d/planner.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/runtime/run.hpp"
#include "labs/trainer/plan/simulate.hpp"
#include "labs/week25_3d/planner_testing.hpp"

namespace lockstep::week25 {
namespace {

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab25_3a, HoldsWhatTheScheduleHolds) {
  for_pipelines([](const Named& named, int p, int m) {
    const Schedule schedule = week24::make_schedule(named.schedule, {p, m, named.chunks});
    for (int s = 0; s < p; ++s) {
      const int peak = peak_of_chunks(schedule[static_cast<std::size_t>(s)], named.chunks);
      ASSERT_DOUBLE_EQ(in_flight(pipeline(named, p), m, s), peak / static_cast<double>(named.chunks))
          << format_case(named, p, m) << "the steps of stage " << s << " hold " << peak << " of " << named.chunks
          << " chunks a microbatch, each chunk at its peak";
    }
  });
}

TEST(Lab25_3a, FewMicrobatchesAreNeverExceeded) {
  for (const Named& named : kSchedules)
    for (int s = 0; s < 8; ++s)
      EXPECT_LE(in_flight(pipeline(named, 8), 2, s), 2) << format_case(named, 8, 2) << "stage " << s;
}

TEST(Lab25_3a, ModelStateIsDividedOverDpAlone) {
  struct Case {
    int zero;
    double parameters, gradients, optimizer;
  };
  for (const Case& c : {Case{0, 2, 2, 12}, Case{1, 2, 2, 3}, Case{2, 2, 0.5, 3}, Case{3, 0.5, 0.5, 3}}) {
    const StageMemory memory = stage_memory({.dp = 4, .tp = 8, .zero = c.zero}, billion(1, 1), 0);
    const std::string where = fmt::format("ZeRO-{}, dp 4, tp 8: the parameters given are already this rank's", c.zero);
    EXPECT_DOUBLE_EQ(memory.state.parameter_bytes, c.parameters * 1e9) << where;
    EXPECT_DOUBLE_EQ(memory.state.gradient_bytes, c.gradients * 1e9) << where;
    EXPECT_DOUBLE_EQ(memory.state.optimizer_bytes, c.optimizer * 1e9) << where;
  }
}

TEST(Lab25_3a, ActivationsAreKeptForEachMicrobatchInFlight) {
  const Strategy strategy{.pp = 4};
  for (int s = 0; s < 4; ++s)
    EXPECT_DOUBLE_EQ(stage_memory(strategy, billion(4, 8), s).activation_bytes, (4 - s) * 3e9 + 5e9)
        << "1f1b, stage " << s << " of 4: 3 GB for each of " << 4 - s << " microbatches, and 5 GB once";
  EXPECT_DOUBLE_EQ(largest_memory(strategy, billion(4, 8)).total_bytes(), 16e9 + 17e9);
}

// Part b --------------------------------------------------------------------------------------------------------------

TEST(Lab25_3b, EqualStagesWithoutHopsAreExact) {
  for_pipelines([](const Named& named, int p, int m) {
    const Work work = uneven(p, m, 0, 0);
    const double expected = makespan(named, work), seconds = pipeline_seconds(pipeline(named, p), work);
    ASSERT_NEAR(seconds / expected, 1, 1e-12)
        << format_case(named, p, m) << "the schedule's own clock ends at " << expected;
  });
}

TEST(Lab25_3b, ALongerLastStageIsExactWhereAllWaitForIt) {
  for_pipelines([](const Named& named, int p, int m) {
    if (named.schedule == "zb-h1" || (named.schedule == "interleaved" && p > 1)) return;  // nearly: below
    const Work work = uneven(p, m, 0, 0.25);
    const double expected = makespan(named, work), seconds = pipeline_seconds(pipeline(named, p), work);
    ASSERT_NEAR(seconds / expected, 1, 1e-12)
        << format_case(named, p, m) << "the last stage takes a quarter longer, and the schedule's own clock ends at "
        << expected;
  });
}

TEST(Lab25_3b, HopsCostWhatTheScheduleCannotHide) {
  for_pipelines([](const Named& named, int p, int m) {
    for (const double head : {0.0, 0.1})
      for (const double hop : {0.02, 0.1}) {
        const Work work = uneven(p, m, hop / named.chunks, head);
        const double expected = makespan(named, work), seconds = pipeline_seconds(pipeline(named, p), work);
        // 1F1B's and interleaved's cycles are those of many microbatches; of zb-h1, a longer last stage hides hops.
        ASSERT_NEAR(seconds / expected, 1,
                    named.schedule == "gpipe"   ? 1e-12
                    : named.schedule == "zb-h1" ? 0.07
                                                : 0.04)
            << format_case(named, p, m) << "hops of " << hop / named.chunks << " s, the last stage " << head
            << " longer: the schedule's own clock ends at " << expected << ", predicted " << seconds;
      }
  });
}

TEST(Lab25_3b, ASlowFirstStageWorksWhileItWaits) {
  // p microbatches and no more: stage 0 does all its forwards before the first gradient is back.
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    const Named named{schedule, 1};
    Work work = uneven(4, 4, 0, 0);
    work.stages.front() = {.forward = 1.2, .backward = 2.4, .weights = 1.2};
    const double expected = makespan(named, work), seconds = pipeline_seconds(pipeline(named, 4), work);
    EXPECT_NEAR(seconds / expected, 1, 0.02) << schedule << ": the schedule's own clock ends at " << expected
                                             << ", predicted " << seconds << ": what stage 0 has done by then is done";
  }
}

TEST(Lab25_3b, OneLongHopIsPaidWhereItIs) {
  // Between stages 1 and 2, as between two nodes.
  for (const Named& named : kSchedules) {
    Work work = uneven(4, 32, 0, 0);
    work.stages[1].hop = 0.3 / named.chunks;
    const double expected = makespan(named, work), seconds = pipeline_seconds(pipeline(named, 4), work);
    EXPECT_NEAR(seconds / expected, 1, 0.01)
        << format_case(named, 4, 32) << "one hop of 0.3 s, the others take none: " << expected
        << " by the schedule's own clock, predicted " << seconds;
  }
}

TEST(Lab25_3b, OneFOneBsRoundTripsAreExactAfterManyMicrobatches) {
  // p microbatches a round trip, and 2(p − 1) hops in each: the pace of many microbatches is exact.
  const int p = 4;
  const Named named{"1f1b", 1};
  const double few = makespan(named, uneven(p, 40, 0.3, 0)), many = makespan(named, uneven(p, 400, 0.3, 0));
  const double pace =
      (pipeline_seconds({.pp = p}, uneven(p, 400, 0.3, 0)) - pipeline_seconds({.pp = p}, uneven(p, 40, 0.3, 0))) / 360;
  EXPECT_NEAR(pace, (many - few) / 360, 1e-9) << "a further microbatch takes F + B and 2(p − 1)/p hops: there and back";
}

// Part c --------------------------------------------------------------------------------------------------------------

const week21::CostModel kLinks{.alpha = 1e-5, .beta = 1e-9, .gamma = 1e-12, .launch = 1e-6};

TEST(Lab25_3c, AGatherAndAScatterAreWeek21sRing) {
  Work work = billion(1, 6);
  work.data = kLinks;
  for (const int dp : {1, 2, 4, 7}) {
    const double gather = gather_seconds({.dp = dp}, work, 1e9), scatter = scatter_seconds({.dp = dp}, work, 1e9);
    EXPECT_NEAR(gather, (dp - 1) * (kLinks.alpha + 2e9 / dp * kLinks.beta), 1e-9) << "gather, dp " << dp;
    EXPECT_NEAR(gather + scatter, week21::ring_all_reduce_seconds(kLinks, dp, 2e9), 1e-9)
        << "dp " << dp << ": 2 bytes an element; both together are the ring all-reduce of 21.5";
  }
}

/// One stage whose forward takes `forward` and backward twice that; a tenth of its gradients is late.
Work one_stage(double forward, int microbatches) {
  Work work = billion(1, microbatches);
  work.stages[0].forward = forward;
  work.stages[0].backward = work.stages[0].window = 2 * forward;
  work.stages[0].late = 0.1e9;
  work.data = kLinks;
  return work;
}

struct Sums {
  double late_s, late_g, s, g, additions;
};
Sums sums_of(const Strategy& strategy, const Work& work) {
  Sums sums{.late_s = scatter_seconds(strategy, work, 0.1e9),
            .late_g = gather_seconds(strategy, work, 0.1e9),
            .s = scatter_seconds(strategy, work, 0.9e9),
            .g = gather_seconds(strategy, work, 0.9e9)};
  sums.additions = sums.s - sums.g;
  return sums;
}

TEST(Lab25_3c, WhatHidesLeavesTheLateAndTheAdditions) {
  const Work work = one_stage(100, 6);  // longer than any sum
  for (const int zero : {0, 1, 2, 3}) {
    const Strategy strategy{.dp = 4, .zero = zero};
    const Sums t = sums_of(strategy, work);
    const double expected = zero == 0   ? t.late_s + t.late_g + t.additions
                            : zero == 1 ? t.late_s + t.additions + t.late_g + t.g
                            : zero == 2 ? 6 * (t.late_s + t.additions) + t.late_g + t.g
                                        : 6 * (t.late_s + 2 * t.late_g + t.additions);
    EXPECT_NEAR(exposed_data(strategy, work, work.stages[0]) / expected, 1, 1e-12) << "ZeRO-" << zero;
  }
  EXPECT_EQ(exposed_data({.dp = 1}, work, work.stages[0]), 0) << "one replica has nobody to sum with";
}

TEST(Lab25_3c, WhatCannotHideIsWaitedFor) {
  const Work work = one_stage(0.1, 6);  // shorter than any sum
  for (const int zero : {0, 1, 2, 3}) {
    const Strategy strategy{.dp = 4, .zero = zero};
    const Sums t = sums_of(strategy, work);
    const double expected = zero == 0   ? t.late_s + t.late_g + t.s + t.g - 0.2
                            : zero == 1 ? t.late_s + t.s - 0.2 + t.late_g + t.g
                            : zero == 2 ? 6 * (t.late_s + t.s - 0.2) + t.late_g + t.g
                                        : 6 * (t.late_s + 2 * t.late_g + t.g - 0.1 + t.g + t.s - 0.2);
    EXPECT_NEAR(exposed_data(strategy, work, work.stages[0]) / expected, 1, 1e-12) << "ZeRO-" << zero;
  }
}

TEST(Lab25_3c, ChunksWidenTheWindow) {
  Work work = one_stage(0.1, 8);
  const Strategy plain{.dp = 4, .pp = 4}, chunks{.dp = 4, .pp = 4, .schedule = "interleaved", .chunks = 2};
  EXPECT_NEAR(exposed_data(plain, work, work.stages[0]) - exposed_data(chunks, work, work.stages[0]), 0.2 * 5 / 2 - 0.2,
              1e-9)
      << "of two chunks the second one's gradients are final 4 turns earlier: a window of (1 + 4)/2 backwards";
}

TEST(Lab25_3c, TheStepIsTheSumOfItsParts) {
  for_pipelines([](const Named& named, int p, int m) {
    Work work = uneven(p, m, 0.01, 0.1);
    for (StageWork& stage : work.stages) stage.tensor = 0.3, stage.recomputed = 0.5, stage.parameters = 1e9;
    work.data = kLinks;
    work.norm = 0.25;
    work.memory_bytes_per_second = 2e12;
    Strategy strategy = pipeline(named, p);
    strategy.dp = 4;
    const StepTime time = step_time(strategy, work);
    const StageWork& last = work.stages.back();
    EXPECT_NEAR(time.compute + time.recomputed + time.tensor, m * (last.forward + last.backward), 1e-9)
        << format_case(named, p, m) << "the last stage is the busiest";
    EXPECT_NEAR(time.recomputed, m * 0.5, 1e-9);
    EXPECT_NEAR(time.tensor, m * 0.3, 1e-9);
    const double pipe = pipeline_seconds(strategy, work);
    EXPECT_NEAR(time.total() - time.data - time.update, pipe, 1e-9) << format_case(named, p, m);
    EXPECT_NEAR(time.data, exposed_data(strategy, work, work.stages[0]), 1e-9)
        << format_case(named, p, m) << "stage 0 is the last to end";
    EXPECT_NEAR(time.update, 0.25 + 32e9 / 2e12, 1e-9);
    for (StageWork& stage : work.stages) stage.hop = 0;
    EXPECT_NEAR(time.hops, pipe - pipeline_seconds(strategy, work), 1e-9) << format_case(named, p, m) << "hops";
  });
}

TEST(Lab25_3c, TheSlowestSumCounts) {
  Work work = uneven(4, 8, 0, 0);
  work.stages.back().after = 30;  // ends 6 s before stage 0, three backwards
  EXPECT_NEAR(step_time({.pp = 4}, work).data, 24, 1e-9) << "30 s, of which stage 0 needs 6 for its last backwards";
  work.stages.back().after = 3;
  EXPECT_NEAR(step_time({.pp = 4}, work).data, 0, 1e-9) << "done before stage 0 has ended";
}

TEST(Lab25_3c, TheUpdateIsOfWhatThisRankHas) {
  Work work = billion(1, 1);
  work.data = kLinks;
  work.memory_bytes_per_second = 2e12;
  for (const auto& [zero, bytes] : {std::pair{0, 32e9}, {1, 9.5e9}, {2, 8e9}, {3, 8e9}})
    EXPECT_NEAR(step_time({.dp = 4, .zero = zero}, work).update, bytes / 2e12, 1e-12) << "ZeRO-" << zero;
}

// Part d --------------------------------------------------------------------------------------------------------------

Rated rated(double seconds, double gigabytes) {
  return {{}, {.compute = seconds}, {.state = {}, .activation_bytes = gigabytes * 1e9}};
}

TEST(Lab25_3d, TheFastestThatFit) {
  const std::vector<Rated> all{rated(3, 10), rated(1, 90), rated(2, 80), rated(2, 40), rated(5, 1)};
  const std::vector<Rated> best = choose(all, 80e9, 3);
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].time.total(), 2) << "1 s would need 90 GB of 80";
  EXPECT_EQ(best[0].memory.total_bytes(), 40e9) << "of two that take 2 s the smaller comes first";
  EXPECT_EQ(best[1].memory.total_bytes(), 80e9) << "80 GB fit 80 GB";
  EXPECT_EQ(best[2].time.total(), 3);
  EXPECT_TRUE(choose(all, 0.5e9, 3).empty());
}

TEST(Lab25_3d, TheLargestCostIsTheLimit) {
  EXPECT_EQ(limit({.compute = 95, .tensor = 5}), "compute");
  EXPECT_EQ(limit({.compute = 60, .recomputed = 20, .tensor = 10, .bubble = 10}), "recomputation");
  EXPECT_EQ(limit({.compute = 60, .tensor = 21, .bubble = 19}), "tensor parallelism");
  EXPECT_EQ(limit({.compute = 60, .tensor = 10, .bubble = 19, .data = 11}), "bubble");
  EXPECT_EQ(limit({.compute = 60, .bubble = 10, .hops = 30}), "pipeline hops");
  EXPECT_EQ(limit({.compute = 60, .hops = 10, .data = 30}), "data parallelism");
  EXPECT_EQ(limit({.compute = 60, .data = 10, .update = 30}), "optimizer");
}

// The whole -----------------------------------------------------------------------------------------------------------

TEST(Lab25_3d, Gpt3On1024A100) {
  const plan::Task task = gpt3_on_1024_a100();
  plan::Predictor predictor(task);
  const plan::Search found = plan::search(predictor, plan::strategies(task), 10);
  ASSERT_EQ(found.best.size(), 10u);
  for (const Rated& plan : found.best) {
    EXPECT_LE(plan.memory.total_bytes(), 80e9) << plan::format_strategy(plan.strategy);
    EXPECT_LE(plan.strategy.tp, 8) << plan::format_strategy(plan.strategy)
                                   << ": tensor parallelism belongs inside the node";
  }
  // 8 × 8 × 16, plain: recomputation, 1F1B.
  const Rated course = predictor.rate({.dp = 8, .tp = 8, .pp = 16, .zero = 1, .recompute = true});
  EXPECT_LE(course.memory.total_bytes(), 80e9);
  EXPECT_LT(found.best.front().time.total(), course.time.total());
  EXPECT_EQ(limit(course.time), "recomputation") << "which the best plan does without";
}

TEST(Lab25_3d, RanksStrategiesAsTheSimulatorDoes) {
  if (std::string_view(backend_name()) != "sim") GTEST_SKIP() << "a statement about virtual time";
  const plan::Task task = two_nodes();
  plan::Predictor predictor(task);
  std::vector<double> predicted, simulated;
  std::size_t number = 0;
  for (const Strategy& strategy : plan::strategies(task)) {
    if (plan::why_not(task, strategy) || ++number % 61 != 0) continue;
    const Rated rated = predictor.rate(strategy);
    const plan::Simulated step = plan::simulate(task, strategy);  // 25.2's, phantom, on all 16 ranks
    predicted.push_back(rated.time.total());
    simulated.push_back(step.seconds);
    EXPECT_NEAR(predicted.back() / step.seconds, 1, 0.12)
        << plan::format_strategy(strategy) << ": predicted " << predicted.back() << " s, simulated " << step.seconds;
    const double memory = rated.memory.total_bytes() / step.memory_bytes;
    EXPECT_TRUE(memory > 0.9 && memory < 1.2)
        << plan::format_strategy(strategy) << ": predicted " << rated.memory.total_bytes() / 1e9
        << " GB, the ledger's peak is " << step.memory_bytes / 1e9;
  }
  ASSERT_GE(predicted.size(), 20u);
  EXPECT_GT(rank_correlation(predicted, simulated), 0.98);
  const auto chosen =
      static_cast<std::size_t>(std::min_element(predicted.begin(), predicted.end()) - predicted.begin());
  EXPECT_LT(simulated[chosen], 1.03 * *std::min_element(simulated.begin(), simulated.end()))
      << "what the predictions choose is as good as the best in the simulator";
}

}  // namespace
}  // namespace lockstep::week25
