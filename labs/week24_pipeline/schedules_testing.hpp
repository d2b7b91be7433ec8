// Shared by the tests of schedules: every stage's steps, the checker, and the time of a run.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/testing/drawn.hpp"
#include "labs/week24_pipeline/timed_stage.hpp"

namespace lockstep::week24 {

inline bool outside_simulator() { return std::string_view(backend_name()) != "sim"; }

using MakeStage = StageSchedule (*)(const PipelineShape&, int stage);

inline Schedule all_stages(MakeStage make, const PipelineShape& shape) {
  Schedule schedule;
  for (int s = 0; s < shape.stages; ++s) schedule.push_back(make(shape, s));
  return schedule;
}

inline std::string where(const PipelineShape& shape) {
  std::string text = fmt::format("with {} stage{} and {} microbatch{}", shape.stages, shape.stages == 1 ? "" : "s",
                                 shape.microbatches, shape.microbatches == 1 ? "" : "es");
  return text + (shape.chunks == 1 ? ": " : fmt::format(", {} chunks a stage: ", shape.chunks));
}

/// The same, of a schedule that can be run: one that cannot ends the test with its mistake.
inline Schedule runnable(MakeStage make, const PipelineShape& shape) {
  Schedule schedule = all_stages(make, shape);
  if (const std::string wrong = check_schedule(schedule, shape); !wrong.empty())
    throw Error(Verdict::fail, where(shape) + wrong);
  return schedule;
}

inline std::string words(const StageSchedule& stage, int chunks) {
  std::string text;
  for (const Step& step : stage) text += (text.empty() ? "" : " ") + to_string(step, chunks);
  return text;
}

/// Numbers of stages and microbatches, smallest first. With --seed one more of each, which no other test has, is drawn.
inline std::vector<PipelineShape> shapes(int chunks = 1, bool multiples = false) {
  std::vector<PipelineShape> all;
  for (int p : {1, 2, 3, 4, 5, 8})
    for (int m : {1, 2, 3, 4, 7, 8, 16})
      if ((!multiples || m % p == 0) && (p > 1 || chunks == 1)) all.push_back({p, m, chunks});
  if (testing::draws()) {
    const int p = 6 + 3 * static_cast<int>(testing::drawn({24, 1}, 3));  // 6, 9 or 12
    const int m = 17 + static_cast<int>(testing::drawn({24, 2}, 20)),
              groups = 3 + static_cast<int>(testing::drawn({24, 3}, 3));
    all.push_back({p, multiples ? groups * p : m, chunks});
  }
  return all;
}

/// "27.8 ms".
inline std::string ms(double seconds) { return fmt::format("{:.6g} ms", seconds * 1e3); }

/// "1 forward", "2 forwards".
inline std::string counted(int count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

inline std::string microbatches(int count) { return fmt::format("{} microbatch{}", count, count == 1 ? "" : "es"); }

/// Describes the mistake in the order of a stage's forwards among its backwards: microbatches in order, and `before(i)`
/// forwards before the i-th step of kind `back`. "" when there is none.
inline std::string wrong_turns(const StageSchedule& steps, Work back, const std::function<int(int i)>& before) {
  int forwards = 0, backwards = 0;
  for (const Step& step : steps) {
    if (step.work != Work::forward && step.work != back) continue;
    int& next = step.work == Work::forward ? forwards : backwards;
    if (step.microbatch < 0) return fmt::format("does {}, and microbatches count from 0", to_string(step));
    if (step.microbatch != next)
      return fmt::format("does {} where {} is next", to_string(step), to_string({step.work, next}));
    if (step.work == back && forwards != before(backwards))
      return fmt::format("has done {} before {}, expected {}", counted(forwards, "forward"), to_string(step),
                         before(backwards));
    ++next;
  }
  return "";
}

/// A run in virtual time, without 24.6: the end of the last stage, and the longest time from a stage's own begin to its
/// own end.
struct Spans {
  double makespan = 0, longest = 0, busiest = 0;
  double rate() const { return (longest - busiest) / longest; }
};
inline Spans spans(const Schedule& schedule, const PipelineShape& shape, const StepTimes& times) {
  Spans spans;
  for (const StageUse& stage : run_timed(schedule, shape, times).stages) {
    spans.makespan = std::max(spans.makespan, stage.end);
    spans.longest = std::max(spans.longest, stage.end - stage.begin);
    spans.busiest = std::max(spans.busiest, stage.busy);
  }
  return spans;
}
inline double makespan(const Schedule& schedule, const PipelineShape& shape, const StepTimes& times) {
  return spans(schedule, shape, times).makespan;
}

inline bool near(double value, double exact) { return std::abs(value - exact) <= 1e-9 * (1 + std::abs(exact)); }

}  // namespace lockstep::week24
