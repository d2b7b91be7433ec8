// Tests of exercise 24.3: 1F1B's warm-up, the bubble of GPipe in a run, and min(p − s, m) microbatches in flight.
#include "labs/week24_pipeline/one_f_one_b.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24 {
namespace {

TEST(Lab24_3, WarmsUpByTheStagesBehindIt) {
  for (const PipelineShape& shape : shapes())
    for (int s = 0; s < shape.stages; ++s) {
      const StageSchedule steps = one_f_one_b(shape, s);
      const auto first =
          std::find_if(steps.begin(), steps.end(), [](const Step& step) { return step.work != Work::forward; });
      ASSERT_EQ(first - steps.begin(), std::min(shape.stages - s, shape.microbatches))
          << where(shape) << "forwards before stage " << s
          << "'s first backward: one, and as many as there are stages behind it";
    }
  EXPECT_EQ(words(one_f_one_b({3, 4}, 0), 1), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(words(one_f_one_b({3, 4}, 1), 1), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(words(one_f_one_b({3, 4}, 2), 1), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(Lab24_3, CanBeRunAndHoldsNoMoreThanThereAreStagesBehind) {
  for (const PipelineShape& shape : shapes()) {
    const Schedule schedule = all_stages(one_f_one_b, shape);
    if (const std::string wrong = check_schedule(schedule, shape); !wrong.empty()) FAIL() << where(shape) << wrong;
    for (int s = 0; s < shape.stages; ++s) {
      const int held = peak_in_flight(schedule[static_cast<std::size_t>(s)]);
      const int expected = std::min(shape.stages - s, shape.microbatches);
      if (held != expected)
        FAIL() << where(shape) << "stage " << s << " holds " << held << " microbatches in flight, expected "
               << expected;
    }
  }
}

TEST(Lab24_3, HasTheBubbleOfGPipe) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  const StepTimes times{1e-3, 1e-3, 1e-3, 0};
  for (const PipelineShape& shape : shapes()) {
    const double turns = shape.microbatches + shape.stages - 1;
    const double seconds = makespan(all_stages(one_f_one_b, shape), shape, times);
    ASSERT_TRUE(near(seconds, turns * 3e-3))
        << where(shape) << seconds * 1e3 << " ms, expected " << turns << " turns of 3 ms";
  }
}

}  // namespace
}  // namespace lockstep::week24
