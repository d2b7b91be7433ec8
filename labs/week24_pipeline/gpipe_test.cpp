// Tests of exercise 24.2: GPipe's steps, its bubble in a run, and its memory.
#include "labs/week24_pipeline/gpipe.hpp"

#include <gtest/gtest.h>

#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24 {
namespace {

TEST(Lab24_2, AllForwardsThenAllBackwardsFromTheLast) {
  for (int stage : {0, 1}) {
    const std::string seen = words(gpipe({2, 3}, stage), 1), expected = "F0 F1 F2 B2 B1 B0";
    if (seen != expected)
      FAIL() << where({2, 3}) << "stage " << stage << " does " << seen << ", expected " << expected
             << ": forwards from the first microbatch on, backwards from the last";
  }
}

TEST(Lab24_2, CanBeRunAndHoldsEveryMicrobatch) {
  for (const PipelineShape& shape : shapes()) {
    const Schedule schedule = all_stages(gpipe, shape);
    if (const std::string wrong = check_schedule(schedule, shape); !wrong.empty()) FAIL() << where(shape) << wrong;
    for (const StageSchedule& stage : schedule) ASSERT_EQ(peak_in_flight(stage), shape.microbatches) << where(shape);
  }
}

TEST(Lab24_2, TakesMPlusPMinusOneTurns) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  const StepTimes times{1e-3, 1e-3, 1e-3, 0};  // a turn: 3 ms
  for (const PipelineShape& shape : shapes()) {
    const double turns = shape.microbatches + shape.stages - 1,
                 seconds = makespan(all_stages(gpipe, shape), shape, times);
    ASSERT_TRUE(near(seconds, turns * 3e-3))
        << where(shape) << seconds * 1e3 << " ms, expected " << turns << " turns of 3 ms";
  }
}

TEST(Lab24_2, TheNaiveScheduleUsesOneStageAtATime) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  const PipelineShape shape{4, 3};
  EXPECT_TRUE(near(makespan(all_stages(naive, shape), shape, {1e-3, 1e-3, 1e-3, 0}), 3 * 4 * 3e-3));
  EXPECT_LT(makespan(all_stages(gpipe, shape), shape, {1e-3, 1e-3, 1e-3, 0}), 3 * 4 * 3e-3);
}

}  // namespace
}  // namespace lockstep::week24
