// Tests of exercise 24.8 judge properties, not one order: it can be run, in 1F1B's memory, without a bubble where
// F = B = W, faster than 1F1B elsewhere, without buffers for sends, and every number comes back through both legs.
#include "labs/week24_pipeline/zb_v.hpp"

#include <gtest/gtest.h>

#include <random>

#include "common/testing/answered.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week24_pipeline/counting_stage_testing.hpp"
#include "labs/week24_pipeline/one_f_one_b.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"
#include "labs/week24_pipeline/zero_bubble.hpp"

namespace lockstep::week24::zb_v_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto zb_v = testing::answer<week24::zb_v>;

using testing::Case;
using testing::CasePlan;
using testing::run_cases;

PipelineShape vee(int stages, int microbatches) { return {stages, microbatches, 2, Placement::vee}; }

std::vector<PipelineShape> vees() {
  std::vector<PipelineShape> all;
  for (int p = 2; p <= 8; ++p)
    for (const int m : {1, 2, 3, p, p + 1, 2 * p - 2, 2 * p - 1, 2 * p, 4 * p}) all.push_back(vee(p, m));
  if (testing::draws()) {
    const int p = 9 + static_cast<int>(testing::drawn({24, 6}, 4));
    all.push_back(vee(p, 1 + static_cast<int>(testing::drawn({24, 7}, 5 * static_cast<std::uint64_t>(p)))));
  }
  return all;
}

/// Within 1F1B's memory; what cannot be run ends the test.
Schedule within_memory(const PipelineShape& shape) {
  Schedule schedule = all_stages(zb_v, shape);
  if (const std::string wrong = check_schedule(schedule, shape, 2 * shape.stages); !wrong.empty())
    throw Error(Verdict::fail, where(shape) + wrong);
  return schedule;
}

/// With one chunk a stage: 24.3's 1F1B; with `halves` 24.5's ZB-H1.
Schedule others(int p, int m, bool halves) { return all_stages(halves ? zb_h1 : one_f_one_b, {p, m}); }

/// The seconds of stages whose times are of all their chunks together, by arithmetic.
double seconds_of(const Schedule& schedule, const PipelineShape& shape, std::vector<StepTimes> stages) {
  for (StepTimes& times : stages)
    for (double* part : {&times.forward, &times.input_gradient, &times.weight_gradient}) *part /= shape.chunks;
  double last = 0;
  for (const auto& steps : time_schedule(schedule, shape, stages)) last = std::max(last, steps.back().end);
  return last;
}

TEST(Lab24_8, CanBeRunInTheMemoryOf1F1B) {
  for (const PipelineShape& shape : vees()) {
    ASSERT_EQ(peak_in_flight(others(shape.stages, 2 * shape.stages, false).front()), shape.stages);
    within_memory(shape);
  }
}

TEST(Lab24_8, NobodyWaitsWhereFBWAreEqual) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  const StepTimes times{1e-3, 1e-3, 1e-3, 0};
  for (const PipelineShape& shape : vees()) {
    if (shape.microbatches < 2 * shape.stages - 1) continue;
    const Spans run = spans(within_memory(shape), shape, times);
    const double work = shape.microbatches * 3e-3, late = (shape.stages - 1) * 0.5e-3;
    if (!near(run.longest, work))
      FAIL() << where(shape) << "the stage with the longest span waits for " << ms(run.longest - work)
             << " of it, expected 0: a turn of F I W of both chunks is the same length on every stage";
    if (!near(run.makespan, work + late))
      FAIL() << where(shape) << "the run takes " << ms(run.makespan) << ", expected " << ms(work + late)
             << ": m(F + B + W), and (p − 1)F/2 until the last stage begins";
  }
}

TEST(Lab24_8, FewMicrobatchesTakeNoLongerThanZBH1) {
  for (const PipelineShape& shape : vees()) {
    const int p = shape.stages, m = shape.microbatches;
    const std::vector<StepTimes> times(static_cast<std::size_t>(p), StepTimes{1e-3, 1e-3, 1e-3, 0});
    const double mine = seconds_of(within_memory(shape), shape, times),
                 h1 = seconds_of(others(p, m, true), {p, m}, times);
    if (mine > h1 + 1e-9)
      FAIL() << where(shape) << "F = B = W take " << ms(mine) << ", ZB-H1 " << ms(h1)
             << ": which steps does another stage wait for at the end?";
  }
}

/// F, B and W of each stage drawn from `around` ± `spread` ms, the same for all stages or not, and a hop.
struct DrawnPipeline {
  PipelineShape shape;
  std::vector<StepTimes> stages;

  DrawnPipeline(std::mt19937_64& random, double spread, double hop, bool many) {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
    const auto time = [&] { return 1e-3 * (1 + spread * (below(2001) / 1000.0 - 1)); };
    const int p = 2 + below(7);
    shape = vee(p, many ? 2 * p - 1 + below(2 * p + 2) : 1 + below(4 * p));
    const bool equal = below(2) == 0;
    for (int s = 0; s < p; ++s)
      stages.push_back(equal && s > 0 ? stages.front() : StepTimes{time(), time(), time(), hop});
  }
};

/// No longer than the others for times that differ by `spread`.
void compare(double spread, bool halves, bool many) {
  std::mt19937_64 random(2024 + testing::drawn({24, 8}, 1 << 20));
  for (int n = 0; n < 200; ++n) {
    const DrawnPipeline drawn(random, spread, n % 2 == 0 ? 0 : 0.1e-3, many);
    const int p = drawn.shape.stages, m = drawn.shape.microbatches;
    const double mine = seconds_of(within_memory(drawn.shape), drawn.shape, drawn.stages),
                 theirs = seconds_of(others(p, m, halves), {p, m}, drawn.stages);
    if (mine <= theirs + 1e-9) continue;
    const StepTimes& first = drawn.stages.front();
    FAIL() << where(drawn.shape) << "with F, B, W of " << ms(first.forward) << ", " << ms(first.input_gradient) << ", "
           << ms(first.weight_gradient) << " on stage 0 and hops of " << ms(first.transfer) << " the run takes "
           << ms(mine) << ", " << (halves ? "ZB-H1 " : "1F1B ") << ms(theirs);
  }
}
TEST(Lab24_8, FasterThan1F1BWhereTimesDiffer) { compare(0.25, /*halves=*/false, /*many=*/false); }
TEST(Lab24_8, NoLongerThanZBH1WhereTimesDifferALittle) { compare(0.1, /*halves=*/true, /*many=*/true); }

/// By 24.1's interpreter: what arithmetic says, and without buffers for sends.
TEST(Lab24_8, RunsInTheTimeOfArithmeticAndWithoutBuffers) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  const StepTimes times{1.1e-3, 1e-3, 0.9e-3, 0.1e-3};
  for (const PipelineShape& shape : {vee(2, 1), vee(2, 5), vee(3, 3), vee(4, 9), vee(5, 7), vee(8, 16)}) {
    const Schedule schedule = within_memory(shape);
    const double expected =
        seconds_of(schedule, shape, std::vector<StepTimes>(static_cast<std::size_t>(shape.stages), times));
    if (const double seconds = makespan(schedule, shape, times); !near(seconds, expected))
      FAIL() << where(shape) << "the run takes " << ms(seconds) << ", the steps as early as they can be run "
             << ms(expected);
    run_timed(schedule, shape, times, {.buffered = false});
  }
}

TEST(Lab24_8, EveryMicrobatchComesBackThroughBothLegs) {
  const auto shape_of_case = [](const Case& c) { return vee(c.ranks, static_cast<int>(c.size)); };
  const auto program = [=](Rank me, const Case& c) {
    const PipelineShape shape = shape_of_case(c);
    const StageSchedule steps = within_memory(shape)[static_cast<std::size_t>(me.rank())];
    const Pipeline pipeline = make_pipeline(me, shape);
    CountingStage stage(me, shape, 5000);
    run_schedule(pipeline, steps, stage);
    return stage.seen();
  };
  CasePlan plan;
  plan.ranks = {2, 3, 4};
  plan.sizes = [](std::size_t p) { return std::vector<std::size_t>{1, 2 * p}; };
  plan.unit = "microbatch";
  plan.queues = true;
  run_cases(
      program, [=](const Case& c, const Outcome& outcome) { return wrong_counts(shape_of_case(c), outcome); }, plan);
}

TEST(Lab24_8, AnotherShapeIsRefused) {
  zb_v(vee(2, 1), 0);
  for (const PipelineShape& shape : {PipelineShape{4, 8, 2}, PipelineShape{4, 8, 4, Placement::vee}}) {
    try {
      zb_v(shape, 0);
      ADD_FAILURE() << where(shape) << "accepted, though it is no V of two chunks";
    } catch (const Error& error) {
      EXPECT_EQ(error.verdict(), Verdict::usage) << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep::week24::zb_v_test
