// Exercise 25.3: the planner. Read labs/week25_3d/planner.hpp first.
//
// Given are week 22's model_state and recipe_of, and the prices of each stage's pieces.
#include "labs/week25_3d/planner.hpp"

#include <algorithm>

#include "labs/week24_pipeline/schedules_by_name.hpp"

namespace lockstep::week25 {

// Part a: memory ------------------------------------------------------------------------------------------------------

double in_flight(const StageSchedule& steps, int chunks) {
  std::vector<int> now(static_cast<std::size_t>(chunks), 0), peak = now;
  // lab 25.3a begin: each chunk's own peak of microbatches between a forward and the end of its backward, which is a
  // whole backward or the weight gradients; 1/v of a microbatch each
  for (const Step& step : steps) {
    const auto c = static_cast<std::size_t>(step.chunk);
    if (step.work == lockstep::Work::forward)
      peak[c] = std::max(peak[c], ++now[c]);
    else if (step.work != lockstep::Work::input_gradient)
      --now[c];
  }
  double sum = 0;
  for (const int of_chunk : peak) sum += of_chunk;
  return sum / chunks;
  // lab end
}

StageBytes stage_memory(const Strategy& strategy, const StageWork& stage, double microbatches) {
  // lab 25.3a begin: week 22's model state of this stage's parameters, shared by dp ranks; activations kept for each
  // microbatch in flight, and what all of them share
  StageBytes memory;
  memory.state = week22::model_state(stage.parameters, strategy.zero, strategy.dp, week22::recipe_of(DType::bf16));
  memory.activation_bytes = microbatches * stage.kept_bytes + stage.working_bytes;
  return memory;
  // lab end
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
  // lab 25.3b begin: each stage's end and what it has in flight, from at most 3p microbatches played. What does a full
  // pipeline need for p more?
  if (m <= 3 * p) return play(strategy, work.stages, m);
  const Pipeline shorter = play(strategy, work.stages, 2 * p);
  Pipeline result = play(strategy, work.stages, 3 * p);
  const double more = static_cast<double>(m - 3 * p) / p;
  const auto extend = [more](std::vector<double>& values, const std::vector<double>& before) {
    for (std::size_t s = 0; s < values.size(); ++s) values[s] += more * (values[s] - before[s]);
  };
  extend(result.ends, shorter.ends);
  extend(result.in_flight, shorter.in_flight);
  return result;
  // lab end
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

}  // namespace lockstep::week25
