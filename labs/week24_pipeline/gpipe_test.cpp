// Tests of exercise 24.2: GPipe's steps, its bubble in a run, its memory, and the bubble by formula.
#include "labs/week24_pipeline/gpipe.hpp"

#include <gtest/gtest.h>

#include "common/testing/answered.hpp"
#include "common/testing/expect_near.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24::gpipe_test {
namespace {

using testing::ExpectNear;
// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto gpipe = testing::answer<week24::gpipe>;
constexpr auto bubble_of_ideal = testing::answer<week24::bubble_of_ideal>;
constexpr auto bubble_of_total = testing::answer<week24::bubble_of_total>;

/// Backwards from the last microbatch, or from the first: as stage 0 has them, on every stage.
TEST(Lab24_2a, AllForwardsThenAllBackwards) {
  for (const PipelineShape& shape : shapes())
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::string forwards, from_last, from_first;
      for (int m = 0; m < shape.microbatches; ++m) {
        forwards += (m == 0 ? "F" : " F") + std::to_string(m);
        from_last = " B" + std::to_string(m) + from_last;
        from_first += " B" + std::to_string(m);
      }
      const bool as_pytorch = words(gpipe(shape, 0), 1) == forwards + from_first;
      const std::string seen = words(gpipe(shape, stage), 1),
                        expected = forwards + (as_pytorch ? from_first : from_last);
      if (seen != expected)
        FAIL() << where(shape) << "stage " << stage << " does " << (seen.empty() ? "nothing" : seen) << ", expected "
               << expected << ": forwards from the first microbatch on, backwards from the last, on every stage";
    }
}

TEST(Lab24_2a, CanBeRunAndHoldsEveryMicrobatch) {
  for (const PipelineShape& shape : shapes()) {
    for (const StageSchedule& stage : runnable(gpipe, shape))
      if (const int held = peak_in_flight(stage); held != shape.microbatches)
        FAIL() << where(shape) << "a stage holds " << microbatches(held) << " at its peak, expected all of them";
  }
}

TEST(Lab24_2a, TakesMPlusPMinusOneTurns) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  const StepTimes times{1e-3, 1e-3, 1e-3, 0};  // a turn: 3 ms
  for (const PipelineShape& shape : shapes()) {
    const double turns = shape.microbatches + shape.stages - 1,
                 seconds = makespan(runnable(gpipe, shape), shape, times);
    if (!near(seconds, turns * 3e-3))
      FAIL() << where(shape) << "the run takes " << ms(seconds) << ", expected m + p − 1 = " << turns
             << " turns of 3 ms";
  }
}

TEST(Lab24_2a, TheNaiveScheduleUsesOneStageAtATime) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  const PipelineShape shape{4, 3};
  EXPECT_TRUE(near(makespan(runnable(naive, shape), shape, {1e-3, 1e-3, 1e-3, 0}), 3 * 4 * 3e-3))
      << "the given naive schedule takes 3 microbatches × 4 stages × 3 ms";
  EXPECT_LT(makespan(runnable(gpipe, shape), shape, {1e-3, 1e-3, 1e-3, 0}), 3 * 4 * 3e-3)
      << "GPipe must be faster than one stage at a time";
}

/// The likely fault of bubble_of_ideal({4, 8}), as an end of the sentence before; "" where nothing is known.
std::string likely_cause(double ideal) {
  if (ideal == 0) return ". A ratio of two ints is rounded down in C++";
  return near(ideal, 3.0 / 11) ? ". Yours counts the idle turns in the denominator too, which is of_total" : "";
}

TEST(Lab24_2b, BothConventions) {
  ExpectNear(bubble_of_ideal({4, 8}), 3.0 / 8)
      << "bubble_of_ideal, p = 4, m = 8: 3 idle turns to 8 of work" << likely_cause(bubble_of_ideal({4, 8}));
  ExpectNear(bubble_of_total({4, 8}), 3.0 / 11) << "bubble_of_total, p = 4, m = 8: 3 idle turns of 11 in all";
  ExpectNear(bubble_of_ideal({4, 8, 2}), 3.0 / 16)
      << "bubble_of_ideal, two chunks per stage: 3 idle turns of a chunk to 16 of work";
  ExpectNear(bubble_of_total({4, 8, 2}), 3.0 / 19)
      << "bubble_of_total, two chunks per stage: 3 idle turns of a chunk of 19 in all";
  ExpectNear(bubble_of_ideal({1, 8}), 0) << "bubble_of_ideal: a single stage never waits";
  ExpectNear(bubble_of_total({2, 1}), 0.5) << "bubble_of_total, p = 2, m = 1: one stage works, the other waits";
}

TEST(Lab24_2b, OfEveryShape) {
  for (int v : {1, 2, 3, 4})
    for (const PipelineShape& shape : shapes(v)) {
      const double idle = shape.stages - 1, work = v * shape.microbatches;
      ExpectNear(bubble_of_ideal(shape), idle / work)
          << where(shape) << "bubble_of_ideal, idle turns of a chunk, to turns of work";
      ExpectNear(bubble_of_total(shape), idle / (work + idle))
          << where(shape) << "bubble_of_total, idle turns of a chunk, of all";
    }
}

}  // namespace
}  // namespace lockstep::week24::gpipe_test
