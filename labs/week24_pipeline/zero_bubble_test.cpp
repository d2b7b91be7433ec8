// Tests of exercise 24.5: the halves in an order that can be, the bubbles (p − 1)(F + B − W) and (p − 1)(F + B − 2W) in
// a run, their memory, and the rates that the paper publishes.
#include "labs/week24_pipeline/zero_bubble.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/testing/answered.hpp"
#include "labs/week24_pipeline/published_rates_testing.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24::zero_bubble_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto zb_h1 = testing::answer<week24::zb_h1>;
constexpr auto zb_h2 = testing::answer<week24::zb_h2>;

void check_memory(MakeStage make, const std::function<int(const PipelineShape&, int stage)>& expected) {
  for (const PipelineShape& shape : shapes()) {
    const Schedule schedule = runnable(make, shape);
    for (int s = 0; s < shape.stages; ++s) {
      const int held = peak_in_flight(schedule[static_cast<std::size_t>(s)]);
      const int most = std::min(expected(shape, s), shape.microbatches);
      if (held > most)
        FAIL() << where(shape) << "stage " << s << " holds " << microbatches(held) << " in flight, expected at most "
               << most << ": one is released by the weight gradients of its backward";
    }
  }
}

/// Makespan less the work, of the stage that works longest without a break: all of them, where F = B = W and m is
/// large.
void check_bubble(MakeStage make, double weight_times) {
  for (const StepTimes& times : {StepTimes{1e-3, 1e-3, 1e-3, 0}, StepTimes{1.2e-3, 1.1e-3, 0.9e-3, 0}})
    for (const PipelineShape& shape : {PipelineShape{2, 8}, PipelineShape{4, 16}, PipelineShape{8, 32}}) {
      const Spans run = spans(runnable(make, shape), shape, times);
      const double work = shape.microbatches * (times.forward + times.input_gradient + times.weight_gradient);
      const double expected = (shape.stages - 1) * std::max(0.0, times.forward + times.input_gradient -
                                                                     weight_times * times.weight_gradient);
      if (!(std::abs(run.longest - work - expected) <= 1e-9))
        FAIL() << where(shape) << "the stage with the longest span is idle on it for " << ms(run.longest - work)
               << ", expected " << ms(expected) << "; F, B, W take " << ms(times.forward) << ", "
               << ms(times.input_gradient) << ", " << ms(times.weight_gradient);
    }
}

/// Warm-up and turns; and weights' halves in order, each `late(s)` microbatches after its input's half.
void check_turns(MakeStage make, const std::function<int(const PipelineShape&, int stage)>& warm_up, int late) {
  for (const PipelineShape& shape : shapes())
    for (int s = 0; s < shape.stages; ++s) {
      const StageSchedule steps = make(shape, s);
      const auto before = [&](int i) { return std::min(warm_up(shape, s) + i, shape.microbatches); };
      std::string wrong = wrong_turns(steps, Work::input_gradient, before);
      int inputs = 0, weights = 0;
      for (std::size_t i = 0; i < steps.size() && wrong.empty(); ++i) {
        inputs += steps[i].work == Work::input_gradient ? 1 : 0;
        if (steps[i].work != Work::weight_gradient) continue;
        const int expected = std::min(weights + late * s + 1, shape.microbatches);
        if (steps[i].microbatch != weights)
          wrong = fmt::format("does {} where W{} is next", to_string(steps[i]), weights);
        else if (inputs != expected)
          wrong =
              fmt::format("has done {} before W{}, expected {}",
                          inputs == 1 ? "1 input's half" : fmt::format("{} inputs' halves", inputs), weights, expected);
        ++weights;
      }
      if (!wrong.empty())
        FAIL() << where(shape) << "stage " << s << " " << wrong
               << ": the warm-up, then turns, with the weight gradients " << (late == 1 ? "s" : "2s")
               << " microbatches after the input gradient";
    }
}

TEST(Lab24_5a, WeightsComeSMicrobatchesLate) {
  check_turns(
      zb_h1, [](const PipelineShape& shape, int s) { return shape.stages - s; }, 1);
}
TEST(Lab24_5b, WeightsComeTwoSMicrobatchesLate) {
  check_turns(
      zb_h2, [](const PipelineShape& shape, int s) { return 2 * (shape.stages - s) - 1; }, 2);
}

TEST(Lab24_5a, StagesHoldPMicrobatches) {
  check_memory(zb_h1, [](const PipelineShape& shape, int) { return shape.stages; });
}
TEST(Lab24_5a, TheBubbleIsSmallerByAWForEachStage) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  check_bubble(zb_h1, 1);
}

TEST(Lab24_5b, StagesHoldTwiceAsMany) {
  check_memory(zb_h2, [](const PipelineShape& shape, int) { return 2 * shape.stages - 1; });
}
TEST(Lab24_5b, TheBubbleIsSmallerByTwoWs) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  check_bubble(zb_h2, 2);
}

double rate(MakeStage make, const PublishedRates& p) {
  const PipelineShape shape{p.stages, p.microbatches};
  return spans(runnable(make, shape), shape, p.times()).rate();
}

void expect_published(MakeStage make, double PublishedRates::*published) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  for (const PublishedRates& p : kPublishedRates)
    if (const double found = rate(make, p); !(std::abs(found - p.*published) <= 0.00005))
      FAIL() << "p = " << p.stages << ", m = " << p.microbatches << ": "
             << fmt::format("a bubble rate of {:.4f}, published {:.4f}", found, p.*published);
}
TEST(Lab24_5a, BubbleRatesAreThePublishedOnes) { expect_published(zb_h1, &PublishedRates::zb_h1); }
TEST(Lab24_5b, BubbleRatesAreThePublishedOnes) { expect_published(zb_h2, &PublishedRates::zb_h2); }

}  // namespace
}  // namespace lockstep::week24::zero_bubble_test
