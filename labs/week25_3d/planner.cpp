// Exercise 25.3: the planner. Read labs/week25_3d/planner.hpp first.
//
// Given are week 22's model_state and recipe_of, week 21's CostModel, and the prices of each stage's pieces.
#include "labs/week25_3d/planner.hpp"

#include <algorithm>
#include <utility>

#include "labs/week24_pipeline/schedules_by_name.hpp"

namespace lockstep::week25 {

// Part a: memory ------------------------------------------------------------------------------------------------------

double in_flight(const StageSchedule& steps, int chunks) {
  std::vector<int> now(static_cast<std::size_t>(chunks), 0), peak = now;
  todo("25.3a",
       "each chunk's own peak of microbatches between a forward and the end of its backward, which is a whole "
       "backward or the weight gradients; 1/v of a microbatch each");
}

StageBytes stage_memory(const Strategy& strategy, const StageWork& stage, double microbatches) {
  todo("25.3a",
       "week 22's model state of this stage's parameters, shared by dp ranks; activations kept for each microbatch "
       "in flight, and what all of them share");
}

// Part b: the pipeline ------------------------------------------------------------------------------------------------

double Pipeline::seconds() const { return *std::max_element(ends.begin(), ends.end()); }

Pipeline play(const Strategy& strategy, const std::vector<StageWork>& stages, int microbatches) {
  const PipelineShape shape = week24::shape_of(strategy.schedule, strategy.pp, microbatches, strategy.chunks);
  const double v = strategy.chunks;
  std::vector<std::vector<StepTimes>> times;
  for (const StageWork& stage : stages) {
    std::vector<StageWork::Chunk> chunks = stage.chunks;
    if (chunks.empty())
      chunks.assign(static_cast<std::size_t>(strategy.chunks),
                    {stage.forward / v, stage.backward / v, stage.weights / v});
    std::vector<StepTimes>& of_stage = times.emplace_back();
    for (const StageWork::Chunk& chunk : chunks)
      of_stage.push_back({.forward = chunk.forward,
                          .input_gradient = chunk.backward - chunk.weights,
                          .weight_gradient = chunk.weights,
                          .transfer = stage.hop,
                          .occupied = stage.hop_occupied});
  }
  const Schedule schedule = week24::make_schedule(strategy.schedule, shape);
  Pipeline played;
  for (const auto& stage : time_schedule(schedule, shape, times)) played.ends.push_back(stage.back().end);
  for (const StageSchedule& steps : schedule) played.in_flight.push_back(in_flight(steps, strategy.chunks));
  return played;
}

Pipeline pipeline(const Strategy& strategy, const Workload& work) {
  const int p = strategy.pp, m = work.microbatches;
  todo("25.3b",
       "each stage's end and what it has in flight, from at most 3p microbatches played. What does a full pipeline "
       "need for p more?");
}

StageBytes largest_memory(const Strategy& strategy, const Workload& work, const Pipeline& pipeline) {
  StageBytes largest;
  for (std::size_t s = 0; s < work.stages.size(); ++s) {
    StageBytes memory = stage_memory(strategy, work.stages[s], pipeline.in_flight[s]);
    if (strategy.fp32_gradients) memory.state.gradient_bytes *= 2;
    if (memory.total_bytes() > largest.total_bytes()) largest = memory;
  }
  return largest;
}

// Part c: the step ----------------------------------------------------------------------------------------------------

double gather_seconds(const Strategy& strategy, const Workload& work, double elements) {
  const double part = (strategy.zero == 0 ? bytes_of_gradient(strategy) : 2) * elements / strategy.dp;
  return (strategy.dp - 1) * (work.data.alpha + part * work.data.beta);
}

namespace {

/// What a scatter takes beyond moving its parts.
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
  todo("25.3c",
       "by ZeRO stage: what is sent, less what hides it, but never less than the additions of a scatter; once per "
       "step or per microbatch; and the late elements' collectives, which nothing hides");
}

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
  todo("25.3c",
       "what the pipeline takes beyond the busiest stage's m microbatches, without hops, and what hops add; then the "
       "largest of each stage's data and update (given: update_seconds)");
}

// Part d: choosing ----------------------------------------------------------------------------------------------------

std::vector<Rated> choose(std::vector<Rated> all, double memory_bytes, std::size_t count) {
  todo("25.3d", "the `count` fastest of those that fit, fastest first, and of equally fast ones the smaller first");
}

std::vector<Share> shares(const StepTime& time) {
  return {{"compute", time.compute}, {"recomputation", time.recomputed}, {"tensor parallelism", time.tensor},
          {"bubble", time.bubble},   {"pipeline hops", time.hops},       {"data parallelism", time.data},
          {"optimizer", time.update}};
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
