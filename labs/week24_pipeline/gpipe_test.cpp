// Tests of exercise 24.2: GPipe's steps, its bubble in a run, and its memory.
#include "labs/week24_pipeline/gpipe.hpp"

#include <gtest/gtest.h>

#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24 {
namespace {

/// Backwards from the last microbatch, or from the first: as stage 0 has them, on every stage.
TEST(Lab24_2, AllForwardsThenAllBackwards) {
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

TEST(Lab24_2, CanBeRunAndHoldsEveryMicrobatch) {
  for (const PipelineShape& shape : shapes()) {
    for (const StageSchedule& stage : runnable(gpipe, shape))
      if (const int held = peak_in_flight(stage); held != shape.microbatches)
        FAIL() << where(shape) << "a stage holds " << microbatches(held) << " at its peak, expected all of them";
  }
}

TEST(Lab24_2, TakesMPlusPMinusOneTurns) {
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

TEST(Lab24_2, TheNaiveScheduleUsesOneStageAtATime) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  const PipelineShape shape{4, 3};
  EXPECT_TRUE(near(makespan(runnable(naive, shape), shape, {1e-3, 1e-3, 1e-3, 0}), 3 * 4 * 3e-3))
      << "the given naive schedule takes 3 microbatches × 4 stages × 3 ms";
  EXPECT_LT(makespan(runnable(gpipe, shape), shape, {1e-3, 1e-3, 1e-3, 0}), 3 * 4 * 3e-3)
      << "GPipe must be faster than one stage at a time";
}

}  // namespace
}  // namespace lockstep::week24
