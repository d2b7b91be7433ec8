// Tests of exercise 24.6: the bubble of given stages and of real runs: 50, 80 and 89 % with two stages, and the
// published rates of 1F1B.
#include "labs/week24_pipeline/bubble.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "common/testing/answered.hpp"
#include "common/testing/expect_near.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week24_pipeline/one_f_one_b.hpp"
#include "labs/week24_pipeline/published_rates_testing.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24::bubble_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto measured_bubble = testing::answer<week24::measured_bubble>;

using testing::expect_seconds, testing::ExpectNear;

/// " (yours is that of an ideal of 16 s)", of a bubble that is `of_ideal` of some other ideal than the busiest stage's.
std::string its_ideal(double of_ideal, double makespan, double busiest) {
  const double ideal = makespan / (1 + of_ideal);
  if (near(ideal, busiest) || !(ideal > 0)) return "";
  return near(of_ideal, 1 - busiest / makespan) ? " (yours is the bubble of the total)"
                                                : fmt::format(" (yours is that of an ideal of {:.4g} s)", ideal);
}

/// No stage begins at 0; the busiest, the one with the longest span and the one that ends last are three.
TEST(Lab24_6, TheMostIsNotAlwaysOfTheSameStage) {
  const std::vector<StageUse> stages = {{.begin = 2, .end = 12, .busy = 4, .waiting = 3, .transferring = 1},
                                        {.begin = 5, .end = 13, .busy = 5, .waiting = 1, .transferring = 2},
                                        {.begin = 3, .end = 11, .busy = 7, .waiting = 1, .transferring = 9}};
  const Bubble bubble = measured_bubble(stages);
  expect_seconds(bubble.makespan, 13) << "the makespan: from 0 to the end of the last stage";
  expect_seconds(bubble.longest_span, 10) << "the longest span: the first stage's, from 2 to 12";
  ExpectNear(bubble.of_ideal, 6.0 / 7) << "the bubble of the ideal: 13 s, of which the busiest stage works 7"
                                       << its_ideal(bubble.of_ideal, 13, 7);
  ExpectNear(bubble.of_total, 6.0 / 13) << "the bubble of the total: 13 s, of which the busiest stage works 7";
  ExpectNear(bubble.of_span, 3.0 / 10) << "the bubble of the span: 10 s, of which the busiest stage works 7";
}

TEST(Lab24_6, FromWhatStagesDid) {
  const Bubble bubble = measured_bubble({{.begin = 0, .end = 9, .busy = 6}, {.begin = 1, .end = 10, .busy = 5}});
  expect_seconds(bubble.makespan, 10) << "the makespan: the last stage ends at 10";
  expect_seconds(bubble.longest_span, 9)
      << "the longest span: each stage from its own begin to its own end, 0 to 9, and 1 to 10";
  ExpectNear(bubble.of_ideal, 4.0 / 6) << "the bubble of the ideal time, which is the work of the busiest stage";
  ExpectNear(bubble.of_total, 4.0 / 10) << "the bubble of the total: what is not the ideal, of the makespan";
  ExpectNear(bubble.of_span, 3.0 / 9) << "the bubble of the span: what is not the ideal, of the longest span";
}

/// Stages by chance, of which --seed draws others. Whole numbers, and the three largest looked for one by one.
TEST(Lab24_6, OfAnyStages) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::mt19937 random(static_cast<unsigned>(i + testing::drawn({24, 6, i}, 1u << 30)));
    std::vector<StageUse> stages(1 + random() % 6);
    double busiest = 0, last = 0, longest = 0;
    for (StageUse& stage : stages) {
      stage.begin = random() % 9, stage.busy = 1 + random() % 20;
      stage.waiting = random() % 5, stage.transferring = random() % 5;
      stage.end = stage.begin + stage.busy + stage.waiting;
      if (stage.busy > busiest) busiest = stage.busy;
      if (stage.end > last) last = stage.end;
      if (stage.end - stage.begin > longest) longest = stage.end - stage.begin;
    }
    std::string what = fmt::format("{} stage{}, (begin, end, busy) =", stages.size(), stages.size() == 1 ? "" : "s");
    for (const StageUse& stage : stages) what += fmt::format(" ({}, {}, {})", stage.begin, stage.end, stage.busy);
    const Bubble bubble = measured_bubble(stages);
    expect_seconds(bubble.makespan, last) << what << ": the makespan goes from 0 to the end of the last stage";
    expect_seconds(bubble.longest_span, longest) << what << ": the longest span is one stage's, from begin to end";
    ExpectNear(bubble.of_ideal, last / busiest - 1) << what << ": idle time, of the busiest stage's work";
    ExpectNear(bubble.of_total, 1 - busiest / last) << what << ": idle time, of the makespan";
    ExpectNear(bubble.of_span, 1 - busiest / longest) << what << ": idle time, of the longest span";
  }
}

TEST(Lab24_6, ARunHasTheBubbleOfTheFormula) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  for (const PipelineShape& shape : shapes()) {
    const Bubble bubble = measured_bubble(run_timed(runnable(one_f_one_b, shape), shape, {1e-3, 1e-3, 1e-3, 0}).stages);
    const double idle = shape.stages - 1, work = shape.microbatches;
    if (!near(bubble.of_ideal, idle / work))
      FAIL() << where(shape) << "the run's bubble is " << bubble.of_ideal << " of the ideal, by (p − 1)/m "
             << idle / work;
    if (!near(bubble.of_total, idle / (work + idle)))
      FAIL() << where(shape) << "the run's bubble is " << bubble.of_total << " of the total, by (p − 1)/(m + p − 1) "
             << idle / (work + idle);
  }
}

TEST(Lab24_6, TwoStagesAreUsed50And80And89Percent) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  for (const auto& [m, percent] : std::vector<std::pair<int, double>>{{1, 50}, {4, 80}, {8, 88.889}}) {
    const PipelineShape shape{2, m};
    const Bubble bubble = measured_bubble(run_timed(runnable(one_f_one_b, shape), shape, {1e-3, 1e-3, 1e-3, 0}).stages);
    EXPECT_NEAR(100 * (1 - bubble.of_total), percent, 0.001) << "per cent of the time that two stages work, m = " << m;
    testing::note(
        fmt::format("p = 2, m = {}: stages work {:.1f}% of the time; bubble {:.1f}% of the ideal, {:.1f}% "
                    "of the total",
                    m, 100 * (1 - bubble.of_total), 100 * bubble.of_ideal, 100 * bubble.of_total));
  }
}

TEST(Lab24_6, HowManyMicrobatchesForATenth) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  int total = 0, ideal = 0;  // the fewest
  for (int m = 40; m > 0; --m) {
    const PipelineShape shape{4, m};
    const Bubble bubble = measured_bubble(run_timed(runnable(one_f_one_b, shape), shape, {1e-3, 1e-3, 1e-3, 0}).stages);
    if (bubble.of_total < 0.1) total = m;
    if (bubble.of_ideal < 0.1) ideal = m;
  }
  testing::note(fmt::format("p = 4: less than 10% of the total from m = {}, of the ideal from m = {}", total, ideal));
  EXPECT_EQ(total, 28) << "p = 4: (p − 1)/(m + p − 1) < 0.1 from m = 28";
  EXPECT_EQ(ideal, 31) << "p = 4: (p − 1)/m < 0.1 from m = 31";
}

TEST(Lab24_6, PublishedRates) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  for (const PublishedRates& p : kPublishedRates) {
    const PipelineShape shape{p.stages, p.microbatches};
    EXPECT_NEAR(measured_bubble(run_timed(runnable(one_f_one_b, shape), shape, p.times()).stages).of_span,
                p.one_f_one_b, 0.00005)
        << "published of 1F1B, p = " << p.stages << ", m = " << p.microbatches;
  }
}

}  // namespace
}  // namespace lockstep::week24::bubble_test
