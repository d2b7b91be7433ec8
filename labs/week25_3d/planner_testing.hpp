// Shared by the tests of 25.3 and 25.6: pipelines to judge, stages with easy numbers, week 24's clock.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/runtime/processes/results.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/expect_near.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "labs/week25_3d/planner.hpp"

namespace lockstep::week25 {

using testing::expect_seconds, testing::ExpectNear;

/// For testing::answered().
template <class Io>
void fields(Io& io, processes::Of<Strategy> auto& s) {
  io(s.dp, s.tp, s.pp, s.microbatch, s.schedule, s.chunks, s.zero, s.recompute, s.sequence_parallel, s.selective, s.cp,
     s.fp32_gradients);
}

struct Named {
  std::string schedule;
  int chunks;
};
inline const std::vector<Named> kSchedules{
    {"gpipe", 1}, {"1f1b", 1}, {"zb-h1", 1}, {"interleaved", 2}, {"interleaved", 3}};

inline Strategy pipeline_of(const Named& named, int stages) {
  return {.pp = stages, .schedule = named.schedule, .chunks = named.chunks};
}
inline std::string format_case(const Named& named, int stages, int microbatches) {
  return fmt::format("{}, v = {}, p = {}, m = {}: ", named.schedule, named.chunks, stages, microbatches);
}

/// Runs `judge(named, p, m)` for pipelines of 1 to 16 stages. With --seed one more length is drawn.
template <class F>
void for_pipelines(const F& judge) {
  for (const Named& named : kSchedules)
    for (const int p : {1, 2, 3, 4, 8, 16})
      for (const int groups : {1, 2, 4, 12})
        if (p > 1 || named.chunks == 1) judge(named, p, p * groups);
  if (!testing::draws()) return;
  const int p = 5 + static_cast<int>(testing::drawn({25, 11}, 3)),
            groups = 5 + static_cast<int>(testing::drawn({25, 12}, 4));
  for (const Named& named : kSchedules) judge(named, p, p * groups);
}

/// Peaks of each chunk's own steps, added up.
inline int peak_of_chunks(const StageSchedule& steps, int chunks) {
  int sum = 0;
  for (int c = 0; c < chunks; ++c) {
    StageSchedule own;
    std::copy_if(steps.begin(), steps.end(), std::back_inserter(own),
                 [&](const Step& step) { return step.chunk == c; });
    sum += peak_in_flight(own);
  }
  return sum;
}

/// `value`, or with --seed another, up to a quarter larger.
inline double about(double value, std::uint64_t which) {
  return value * (1 + static_cast<double>(testing::drawn({25, 13, which}, 1000)) / 4000);
}

/// 1 billion parameters on each rank, 3 GB a microbatch, 5 GB once.
inline Workload billion(int stages, int microbatches) {
  Workload work{.microbatches = microbatches};
  work.stages.assign(static_cast<std::size_t>(stages),
                     {.forward = 1, .backward = 2, .parameters = 1e9, .kept_bytes = 3e9, .working_bytes = 5e9});
  return work;
}

/// Stages that take 1 forward and 2 back, of which the weights are half; the last one `head` longer in each.
inline Workload uneven(int stages, int microbatches, double hop, double head) {
  Workload work{.microbatches = microbatches};
  work.stages.assign(static_cast<std::size_t>(stages), {.forward = 1, .backward = 2, .weights = 1, .hop = hop});
  work.stages.back() = {.forward = 1 + head, .backward = 2 + 2 * head, .weights = 1 + head, .hop = hop};
  return work;
}

/// When the last step of each stage ends, by week 24's schedule at its full length.
inline std::vector<double> ends_of(const Named& named, const Workload& work) {
  const PipelineShape shape{static_cast<int>(work.stages.size()), work.microbatches, named.chunks};
  std::vector<StepTimes> times;
  for (const StageWork& stage : work.stages)
    times.push_back({stage.forward / named.chunks, (stage.backward - stage.weights) / named.chunks,
                     stage.weights / named.chunks, stage.hop});
  std::vector<double> ends;
  for (const auto& stage : time_schedule(week24::make_schedule(named.schedule, shape), shape, times))
    ends.push_back(stage.back().end);
  return ends;
}

}  // namespace lockstep::week25
