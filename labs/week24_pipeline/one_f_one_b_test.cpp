// Tests of exercise 24.3: 1F1B's warm-up, the bubble of GPipe in a run, and min(p − s, m) microbatches in flight.
#include "labs/week24_pipeline/one_f_one_b.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/testing/answered.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24::one_f_one_b_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto one_f_one_b = testing::answer<week24::one_f_one_b>;

bool has_too_many(const StageSchedule& steps, const PipelineShape& shape) {
  return std::any_of(steps.begin(), steps.end(),
                     [&](const Step& step) { return step.microbatch >= shape.microbatches; });
}

TEST(Lab24_3, WarmsUpByTheStagesBehindIt) {
  for (const PipelineShape& shape : shapes())
    for (int s = 0; s < shape.stages; ++s) {
      const StageSchedule steps = one_f_one_b(shape, s);
      const std::string wrong =
          wrong_turns(steps, Work::backward, [&](int i) { return std::min(shape.stages - s + i, shape.microbatches); });
      if (!wrong.empty())
        FAIL() << where(shape) << "stage " << s << " " << wrong
               << ": forwards first, as many as there are stages after it, then a forward and a backward in turn"
               << (has_too_many(steps, shape) ? ", as long as there are microbatches left" : "") << ". Its list is "
               << words(steps, 1);
    }
}

TEST(Lab24_3, CanBeRunAndHoldsNoMoreThanThereAreStagesBehind) {
  for (const PipelineShape& shape : shapes()) {
    const Schedule schedule = runnable(one_f_one_b, shape);
    for (int s = 0; s < shape.stages; ++s) {
      const int held = peak_in_flight(schedule[static_cast<std::size_t>(s)]);
      const int expected = std::min(shape.stages - s, shape.microbatches);
      if (held != expected)
        FAIL() << where(shape) << "stage " << s << " holds " << microbatches(held) << " in flight, expected "
               << expected;
    }
  }
}

TEST(Lab24_3, HasTheBubbleOfGPipe) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  const StepTimes times{1e-3, 1e-3, 1e-3, 0};
  for (const PipelineShape& shape : shapes()) {
    const double turns = shape.microbatches + shape.stages - 1;
    const double seconds = makespan(runnable(one_f_one_b, shape), shape, times);
    if (!near(seconds, turns * 3e-3))
      FAIL() << where(shape) << "the run takes " << ms(seconds) << ", expected m + p − 1 = " << turns
             << " turns of 3 ms";
  }
}

}  // namespace
}  // namespace lockstep::week24::one_f_one_b_test
