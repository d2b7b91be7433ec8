// Exercise 25.6: the step's time, and the choice. Read labs/week25_3d/step_time.hpp first.
//
// Given are 25.3's pipeline and memory, and the ring's two halves by week 21's CostModel.
#include "labs/week25_3d/step_time.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::week25 {

// Part a: what a stage exposes ----------------------------------------------------------------------------------------

double gather_seconds(const Strategy& strategy, const Workload& work, double elements) {
  const double part = (strategy.zero == 0 ? bytes_of_gradient(strategy) : 2) * elements / strategy.dp;
  return (strategy.dp - 1) * (work.data.alpha + part * work.data.beta);
}

namespace {

/// Seconds that a scatter takes beyond moving its parts.
double addition_seconds(const Strategy& strategy, const Workload& work, double elements) {
  const double part = bytes_of_gradient(strategy) * elements / strategy.dp;
  return (strategy.dp - 1) * (part * work.data.gamma + work.data.launch);
}

}  // namespace

double scatter_seconds(const Strategy& strategy, const Workload& work, double elements) {
  const double part = bytes_of_gradient(strategy) * elements / strategy.dp;
  return (strategy.dp - 1) * (work.data.alpha + part * work.data.beta) + addition_seconds(strategy, work, elements);
}

double exposed_data(const Strategy& strategy, const Workload& work, const StageWork& stage) {
  if (strategy.dp == 1) return 0;
  const double m = work.microbatches, v = strategy.chunks, others = stage.parameters - stage.late;
  const double s = scatter_seconds(strategy, work, others), g = gather_seconds(strategy, work, others);
  const double late_s = scatter_seconds(strategy, work, stage.late);
  const double late_g = gather_seconds(strategy, work, stage.late);
  const double backward = stage.window, last = stage.window * (1 + (v - 1) * strategy.pp) / v;
  const double forward = stage.backward > 0 ? stage.window * stage.forward / stage.backward : 0;
  const double additions = addition_seconds(strategy, work, others);
  // lab 25.6a begin: by ZeRO stage: what is sent, less what hides it, but never less than the additions of a scatter;
  // once per step or per microbatch; and the late elements' collectives, which nothing hides
  switch (strategy.zero) {
    case 0: return late_s + late_g + std::max(additions, s + g - last);
    case 1: return late_s + late_g + std::max(additions, s - last) + g;
    case 2: return m * (late_s + std::max(additions, s - backward)) + late_g + g;
    default: return m * (late_s + 2 * late_g + std::max(0.0, g - forward) + std::max(additions, g + s - backward));
  }
  // lab end
}

// Part b: the step ----------------------------------------------------------------------------------------------------

namespace {

/// F + B of one microbatch.
double seconds(const StageWork& stage) { return stage.forward + stage.backward; }

const StageWork& busiest(const Workload& work) {
  return *std::max_element(work.stages.begin(), work.stages.end(),
                           [](const StageWork& a, const StageWork& b) { return seconds(a) < seconds(b); });
}

/// norm, and the bytes that the optimizer moves: of the 30, 4 read a gradient twice.
double update_seconds(const Strategy& strategy, const Workload& work, const StageWork& stage) {
  const double own = stage.parameters / (strategy.zero >= 1 ? strategy.dp : 1);
  const double gradients = stage.parameters / (strategy.zero >= 2 ? strategy.dp : 1);
  const double bytes = bytes_of_gradient(strategy);
  return work.norm + ((26 + 2 * bytes) * own + bytes * gradients) / work.memory_bytes_per_second;
}

}  // namespace

StepTime step_time(const Strategy& strategy, const Workload& work, const Pipeline& pipeline,
                   const Pipeline& without_hops) {
  const StageWork& most = busiest(work);
  const double m = work.microbatches;
  StepTime time;
  time.recomputed = m * most.recomputed;
  time.tensor = m * most.tensor;
  time.compute = m * seconds(most) - time.recomputed - time.tensor;
  // lab 25.6b begin: what the pipeline takes beyond the busiest stage's m microbatches, without hops, and what hops
  // add; then the largest of each stage's data and update (given: update_seconds)
  time.bubble = std::max(0.0, without_hops.seconds() - m * seconds(most));
  time.hops = pipeline.seconds() - without_hops.seconds();
  for (std::size_t s = 0; s < work.stages.size(); ++s) {
    const StageWork& stage = work.stages[s];
    const double lead = pipeline.seconds() - pipeline.ends[s];
    time.data = std::max(time.data, stage.after + exposed_data(strategy, work, stage) - lead);
    time.update = std::max(time.update, update_seconds(strategy, work, stage));
  }
  return time;
  // lab end
}

// Part c: choosing ----------------------------------------------------------------------------------------------------

std::vector<Rated> choose(std::vector<Rated> all, double memory_bytes, std::size_t count) {
  // lab 25.6c begin: the `count` fastest of those that fit, fastest first, and of equally fast ones the smaller first
  std::erase_if(all, [&](const Rated& rated) { return rated.memory.total_bytes() > memory_bytes; });
  std::stable_sort(all.begin(), all.end(), [](const Rated& a, const Rated& b) {
    return std::pair(a.time.total(), a.memory.total_bytes()) < std::pair(b.time.total(), b.memory.total_bytes());
  });
  if (all.size() > count) all.resize(count);
  return all;
  // lab end
}

std::vector<Share> shares(const StepTime& time) {
  std::vector<Share> all{{"compute", time.compute},           {"recomputation", time.recomputed},
                         {"tensor parallelism", time.tensor}, {"bubble", time.bubble},
                         {"pipeline hops", time.hops},        {"data parallelism", time.data},
                         {"optimizer", time.update}};
  if (time.host > 0) all.push_back({"host", time.host});
  if (time.input > 0) all.push_back({"input", time.input});
  return all;
}

namespace {

Share largest(const std::vector<Share>& shares) {
  return *std::max_element(shares.begin(), shares.end(),
                           [](const Share& a, const Share& b) { return a.seconds < b.seconds; });
}

}  // namespace

Share limit(const StepTime& time) { return largest(shares(time)); }

Share largest_overhead(const StepTime& time) {
  std::vector<Share> overheads = shares(time);
  overheads.erase(overheads.begin());
  return largest(overheads);
}

}  // namespace lockstep::week25
