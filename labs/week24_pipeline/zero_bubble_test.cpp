// Tests of exercise 24.5: the halves in an order that can be, the bubbles (p − 1)(F + B − W) and (p − 1)(F + B − 2W) in
// a run, their memory, and the rates that the paper publishes.
#include "labs/week24_pipeline/zero_bubble.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "labs/week24_pipeline/published_rates.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24 {
namespace {

void check_memory(MakeStage make, const std::function<int(const PipelineShape&, int stage)>& expected) {
  for (const PipelineShape& shape : shapes()) {
    const Schedule schedule = all_stages(make, shape);
    if (const std::string wrong = check_schedule(schedule, shape); !wrong.empty()) FAIL() << where(shape) << wrong;
    for (int s = 0; s < shape.stages; ++s) {
      const int held = peak_in_flight(schedule[static_cast<std::size_t>(s)]);
      const int most = std::min(expected(shape, s), shape.microbatches);
      if (held > most)
        FAIL() << where(shape) << "stage " << s << " holds " << held << " microbatches in flight, at most " << most
               << " expected: one is let go by the weights' half of its backward";
    }
  }
}

/// Makespan less the work, of the stage that works longest without a break: all of them, where F = B = W and m is
/// large.
void check_bubble(MakeStage make, double weight_times) {
  for (const StepTimes& times : {StepTimes{1e-3, 1e-3, 1e-3, 0}, StepTimes{1.2e-3, 1.1e-3, 0.9e-3, 0}})
    for (const PipelineShape& shape : {PipelineShape{2, 8}, PipelineShape{4, 16}, PipelineShape{8, 32}}) {
      const Spans run = spans(all_stages(make, shape), shape, times);
      const double work = shape.microbatches * (times.forward + times.input_gradient + times.weight_gradient);
      const double expected = (shape.stages - 1) * std::max(0.0, times.forward + times.input_gradient -
                                                                     weight_times * times.weight_gradient);
      ASSERT_NEAR(run.longest - work, expected, 1e-9)
          << where(shape) << "idle on the stage with the longest span; F, B, W are " << times.forward << ", "
          << times.input_gradient << ", " << times.weight_gradient;
    }
}

TEST(Lab24_5a, StagesHoldPMicrobatches) {
  check_memory(zb_h1, [](const PipelineShape& shape, int) { return shape.stages; });
}
TEST(Lab24_5a, TheBubbleIsSmallerByAWForEachStage) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  check_bubble(zb_h1, 1);
}

TEST(Lab24_5b, StagesHoldTwiceAsMany) {
  check_memory(zb_h2, [](const PipelineShape& shape, int) { return 2 * shape.stages - 1; });
}
TEST(Lab24_5b, TheBubbleIsSmallerByTwoWs) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  check_bubble(zb_h2, 2);
}

double rate(MakeStage make, const PublishedRates& p) {
  const PipelineShape shape{p.stages, p.microbatches};
  return spans(all_stages(make, shape), shape, p.times()).rate();
}

TEST(Lab24_5a, BubbleRatesAreThePublishedOnes) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  for (const PublishedRates& p : kPublishedRates)
    EXPECT_NEAR(rate(zb_h1, p), p.zb_h1, 0.00005) << "p = " << p.stages << ", m = " << p.microbatches;
}
TEST(Lab24_5b, BubbleRatesAreThePublishedOnes) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  for (const PublishedRates& p : kPublishedRates)
    EXPECT_NEAR(rate(zb_h2, p), p.zb_h2, 0.00005) << "p = " << p.stages << ", m = " << p.microbatches;
}

}  // namespace
}  // namespace lockstep::week24
