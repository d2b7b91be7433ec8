// DualPipeV's order: it can be run in the published memory, and its bubble is the published one, or with a pair as two
// steps, half of that. Then ./lab plan's predictions of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "labs/trainer/plan/simulate.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"
#include "tools/plan/plan_testing.hpp"
#include "tools/plan/strategy_file.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::plan {
namespace {

using week24::dual_pipe_v;
using week24::where;

PipelineShape vee(int stages, int microbatches) { return {stages, microbatches, 2, Placement::vee}; }

/// A chunk's times.
struct DualPipeTimes {
  double forward = 1, input = 1, weight = 1;
  double turn() const { return forward + input + weight; }
};

/// The largest idle time within a stage's own span, if two steps of a pair, a forward and the whole backward after it,
/// are one: it begins when both inputs are there, and sends both results at its end. Nothing: a cycle.
std::optional<double> idle_of_pairs(const Schedule& schedule, const PipelineShape& shape, const DualPipeTimes& times) {
  const auto seconds = [&](const Step& step) {
    return step.work == Work::forward           ? times.forward
           : step.work == Work::input_gradient  ? times.input
           : step.work == Work::weight_gradient ? times.weight
                                                : times.input + times.weight;
  };
  std::map<std::array<int, 3>, double> ends;  // by backward or not, part, microbatch
  const auto ready = [&](int s, const Step& step) -> std::optional<double> {
    const int part = part_of(shape, s, step.chunk), back = step.work != Work::forward;
    const int from = part + (step.work == Work::weight_gradient ? 0 : back ? 1 : -1);
    if (from < 0) return 0;
    const auto found =
        ends.find({from < 2 * shape.stages ? back : 0, std::min(from, 2 * shape.stages - 1), step.microbatch});
    return found == ends.end() ? std::nullopt : std::optional(found->second);
  };
  std::vector<double> clock(schedule.size(), 0), busy = clock, begin(schedule.size(), -1);
  std::vector<std::size_t> next(schedule.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < schedule.size(); ++s)
      while (next[s] < schedule[s].size()) {
        const StageSchedule& steps = schedule[s];
        const std::size_t i = next[s], j = i + 1;
        const bool pair = j < steps.size() && steps[i].work == Work::forward && steps[j].work == Work::backward;
        const StageSchedule together(steps.begin() + static_cast<std::ptrdiff_t>(i),
                                     steps.begin() + static_cast<std::ptrdiff_t>(i + (pair ? 2 : 1)));
        double from = clock[s], took = 0;
        bool can = true;
        for (const Step& step : together) {
          const std::optional<double> input = ready(static_cast<int>(s), step);
          can = can && input;
          from = std::max(from, input.value_or(0)), took += seconds(step);
        }
        if (!can) break;
        if (begin[s] < 0) begin[s] = from;
        clock[s] = from + took, busy[s] += took, next[s] += together.size(), moved = true;
        for (const Step& step : together)
          if (step.work != Work::weight_gradient)
            ends[{step.work != Work::forward, part_of(shape, static_cast<int>(s), step.chunk), step.microbatch}] =
                clock[s];
      }
  }
  double most = 0;
  for (std::size_t s = 0; s < schedule.size(); ++s) {
    if (next[s] < schedule[s].size()) return std::nullopt;
    most = std::max(most, clock[s] - begin[s] - busy[s]);
  }
  return most;
}

/// The same with each step on its own: time_schedule's.
double idle_of_steps(const Schedule& schedule, const PipelineShape& shape, const DualPipeTimes& times) {
  double most = 0;
  for (const auto& stage : time_schedule(schedule, shape, StepTimes{times.forward, times.input, times.weight})) {
    double idle = stage.back().end - stage.front().begin;
    for (const TimedStep& step : stage) idle -= step.end - step.begin;
    most = std::max(most, idle);
  }
  return most;
}

TEST(DualPipeV, CanBeRunInThePublishedMemory) {
  for (int p = 2; p <= 10; ++p)
    for (int m = 1; m <= 4 * p + 1; ++m) {
      const PipelineShape shape = vee(p, m);
      const Schedule schedule = week24::make_schedule("dualpipev", shape);
      EXPECT_EQ(check_schedule(schedule, shape, 2 * p + 1), "") << where(shape);
      for (const StageSchedule& stage : schedule)
        EXPECT_TRUE(m < 2 * p || peak_in_flight(stage) == 2 * p + 1) << where(shape);
    }
  EXPECT_EQ(week24::words(dual_pipe_v(vee(2, 4), 0), 2),
            "F0.0 F1.0 F2.0 F0.1 I0.1 W0.1 F1.1 F3.0 B1.1 F2.1 B0.0 B2.1 F3.1 B1.0 B3.1 I2.0 W2.0 I3.0 W3.0");
}

// PP of the published table counts parts, here 2p; F and W are a part's, and its B is the whole backward of one.
TEST(DualPipeV, ItsBubbleIsThePublishedOneWhereAPairIsOneStep) {
  for (const DualPipeTimes& t : {DualPipeTimes{}, {2, 2, 1}, {1, 1, 0.5}, {3, 3, 1}})
    for (int p = 2; p <= 8; ++p)
      for (const int m : {2 * p, 2 * p + 3, 5 * p}) {
        const PipelineShape shape = vee(p, m);
        const Schedule schedule = week24::make_schedule("dualpipev", shape);
        const double whole = t.input + t.weight, pair = t.forward + whole;
        EXPECT_NEAR(idle_of_pairs(schedule, shape, t).value_or(-1), (p - 1) * (pair + whole - 3 * t.weight), 1e-9)
            << where(shape);
        EXPECT_NEAR(idle_of_steps(schedule, shape, t), (p - 1) * (t.forward + t.input - t.weight), 1e-9)
            << where(shape) << "the next stage need not wait for the backward after a forward";
      }
}

TEST(DualPipeV, ItIsBetweenZBH1AndZBV) {
  const auto idle = [](const char* name, int p, int m) {
    const PipelineShape shape = week24::shape_of(name, p, m);
    const double part = 1.0 / shape.chunks;
    return idle_of_steps(week24::make_schedule(name, shape), shape, {part, part, part});
  };
  for (int p = 2; p <= 8; ++p)
    for (const int m : {2 * p, 4 * p}) {
      EXPECT_NEAR(idle("zb-h1", p, m), p - 1, 1e-9);
      EXPECT_NEAR(idle("dualpipev", p, m), (p - 1) / 2.0, 1e-9);
      EXPECT_NEAR(idle("zb-v", p, m), 0, 1e-9);
    }
}

/// By 24.1's interpreter: in arithmetic's time, and without buffers for sends.
TEST(DualPipeV, RunsInTheTimeOfArithmeticAndWithoutBuffers) {
  const StepTimes times{1.1e-3, 1e-3, 0.9e-3, 0.1e-3};
  for (const PipelineShape& shape : {vee(2, 1), vee(2, 5), vee(3, 3), vee(4, 9), vee(5, 12), vee(8, 16)}) {
    const Schedule schedule = week24::make_schedule("dualpipev", shape);
    StepTimes halves = times;
    for (double* part : {&halves.forward, &halves.input_gradient, &halves.weight_gradient}) *part /= 2;
    double expected = 0;
    for (const auto& stage : time_schedule(schedule, shape, halves)) expected = std::max(expected, stage.back().end);
    EXPECT_NEAR(week24::makespan(schedule, shape, times), expected, 1e-9) << where(shape);
    week24::run_timed(schedule, shape, times, {.buffered = false});
  }
}

TEST(DualPipeV, AnotherShapeIsRefused) {
  for (const PipelineShape& shape : {PipelineShape{4, 8, 2}, PipelineShape{4, 8, 4, Placement::vee}, vee(1, 8)})
    EXPECT_THROW(dual_pipe_v(shape, 0), Error) << where(shape);
}

TEST(DualPipeV, FormulasAgreeWithTheSimulator) {
  for (const auto& [model, cluster, batch, dp, pp] : {std::tuple{"gpt2-1.5b", "dgx-a100-hdrx1", 64, 1, 8},
                                                      {"gpt2-1.5b", "dgx-a100-hdrx2", 64, 4, 4},
                                                      {"gpt3-13b", "dgx-h100-ndrx2", 64, 1, 16},
                                                      {"gpt2-355m", "pcie-box-100gbex2", 32, 2, 4}}) {
    const Task task = task_of(model, cluster, batch);
    const week25::Strategy s = parse_strategy(
        fmt::format(R"({{"dp": {}, "pp": {}, "schedule": "dualpipev", "zero": {}}})", dp, pp, dp > 1 ? 1 : 0), "mine");
    ASSERT_FALSE(why_not(task, s)) << why_not(task, s)->sentence;
    const week25::Rated rated = Predictor(task).rate(s);
    const week25::PhantomStep step = week25::phantom_step(options_of(task, s), task.cluster.machine);
    EXPECT_NEAR(rated.time.total() / step.seconds, 1, 0.05) << cluster;
    EXPECT_NEAR(rated.memory.total_bytes() / step.peak_bytes(), 1, 0.02) << cluster;
    fmt::print("{:<18} {:<9}: {:+.1f}% of the time, {:+.1f}% of the memory\n", cluster, model,
               100 * (rated.time.total() / step.seconds - 1),
               100 * (rated.memory.total_bytes() / step.peak_bytes() - 1));
  }
}

}  // namespace
}  // namespace lockstep::plan
