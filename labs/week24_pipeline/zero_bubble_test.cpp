// Tests of exercise 24.5: the halves in an order that can be, the bubbles (p − 1)(F + B − W) and (p − 1)(F + B − 2W) in
// a run, their memory, and the rates that the paper publishes.
#include "labs/week24_pipeline/zero_bubble.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24 {
namespace {

void check_memory(MakeStage make, const std::function<int(const PipelineShape&, int stage)>& expected) {
  for (const PipelineShape& shape : shapes()) {
    const Schedule schedule = all_stages(make, shape);
    ASSERT_EQ(check_schedule(schedule, shape), "") << where(shape);
    for (int s = 0; s < shape.stages; ++s)
      ASSERT_LE(peak_in_flight(schedule[static_cast<std::size_t>(s)]), std::min(expected(shape, s), shape.microbatches))
          << where(shape) << "microbatches in flight on stage " << s;
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

/// arXiv 2401.10241, tables 5 and 6: milliseconds of F, B, W and of a hop, and the bubble rates.
struct Published {
  int stages, microbatches;
  double forward, input, weight, transfer, h1, h2;
};
constexpr Published kPublished[] = {
    {8, 24, 18.522, 18.086, 9.337, 0.601, .1585, .1083},  {8, 64, 18.546, 18.097, 9.321, 0.762, .0674, .0444},
    {8, 32, 29.802, 29.428, 19.530, 0.577, .1045, .0559}, {16, 48, 11.347, 11.248, 8.132, 0.377, .1397, .0672},
    {32, 96, 10.419, 10.207, 7.715, 0.408, .1421, .0641}, {32, 256, 10.402, 10.248, 7.698, 0.460, .0594, .0257}};

double rate(MakeStage make, const Published& p) {
  const PipelineShape shape{p.stages, p.microbatches};
  const StepTimes times{p.forward / 1e3, p.input / 1e3, p.weight / 1e3, p.transfer / 1e3};
  return spans(all_stages(make, shape), shape, times).rate();
}

TEST(Lab24_5a, BubbleRatesAreThePublishedOnes) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  for (const Published& p : kPublished)
    EXPECT_NEAR(rate(zb_h1, p), p.h1, 0.00005) << "p = " << p.stages << ", m = " << p.microbatches;
}
TEST(Lab24_5b, BubbleRatesAreThePublishedOnes) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  for (const Published& p : kPublished)
    EXPECT_NEAR(rate(zb_h2, p), p.h2, 0.00005) << "p = " << p.stages << ", m = " << p.microbatches;
}

}  // namespace
}  // namespace lockstep::week24
