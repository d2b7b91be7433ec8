// Exercise 24.7, an open task: a schedule of your own for unequal stages, under a memory limit. There is no skeleton to
// fill in and no single answer: the checker says whether your schedule can be executed, and the simulator how long it
// takes.
//
// Prior work: Qi et al. (arXiv 2401.10241), section 3, search for a schedule with measured times; "Pipeline Parallelism
// with Controllable Memory" (arXiv 2405.15362) builds schedules for a given memory.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep::week24 {

/// The pipeline to be scheduled. One chunk per stage.
struct OpenPipeline {
  std::string name;
  PipelineShape shape;
  std::vector<StepTimes> stages;  ///< by stage: what its steps take; the hops are equal
  int most_in_flight = 0;         ///< microbatches that a stage may hold, from F to the end of B or W
};

/// Given: the pipelines of the scoreboard, whose steps take about a millisecond.
inline std::vector<OpenPipeline> open_pipelines() {
  const auto stages = [](const std::vector<double>& works, double hop) {
    std::vector<StepTimes> all;
    for (const double work : works) all.push_back({work * 1e-3, work * 1e-3, work * 1e-3, hop * 1e-3});
    return all;
  };
  return {{"a heavy head", {4, 8, 1}, stages({1, 1, 1, 1.4}, 0), 4},
          {"six unequal stages", {6, 12, 1}, stages({1.2, 1, 0.8, 1, 0.9, 1.3}, 0.2), 6},
          {"room for three", {4, 12, 1}, stages({1.1, 1, 1, 1.2}, 0.05), 3}};
}

/// Given: the baseline, 1F1B with a warm-up as long as each stage's limit allows. Not the optimum.
inline Schedule limited_one_f_one_b(const PipelineShape& shape, const std::vector<int>& most_in_flight) {
  const int p = shape.stages, m = shape.microbatches;
  Schedule schedule;
  int before = m;  // a stage cannot go further ahead of its gradients than the one before it
  for (int s = 0; s < p; ++s) {
    StageSchedule& steps = schedule.emplace_back();
    const int warm_up = std::min({p - 1 - s, most_in_flight[static_cast<std::size_t>(s)] - 1, before});
    before = warm_up;
    for (int i = 0; i < m + warm_up; ++i) {
      if (i < m) steps.push_back({Work::forward, i});
      if (i >= warm_up) steps.push_back({Work::backward, i - warm_up});
    }
  }
  return schedule;
}

/// The text of a schedule file, as ./lab pipeline --schedule-file reads it: one line of words per stage, F0 F1 I0 W0
/// B1.
///
/// check_schedule finds nothing wrong with it, with the pipeline's limit. From the first step to the last it takes at
/// most 90 % of the virtual time of 1F1B with as long a warm-up as the limit allows, for each of open_pipelines().
std::string open_schedule(const OpenPipeline& pipeline);

}  // namespace lockstep::week24
