// Exercise 25.3: the planner. Read labs/week25_3d/planner.hpp first.
//
// Given are week 22's model_state and recipe_of, week 21's CostModel, and the prices of each stage's pieces.
#include "labs/week25_3d/planner.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "common/error.hpp"

namespace lockstep::week25 {

double in_flight(const Strategy& strategy, int microbatches, int stage) {
  const int p = strategy.pp, m = microbatches, v = strategy.chunks;
  todo("25.3a", "by schedule; never more than m");
}

StageMemory stage_memory(const Strategy& strategy, const Work& work, int stage) {
  const StageWork& here = work.stages[static_cast<std::size_t>(stage)];
  todo("25.3a",
       "week 22's model state of this stage's parameters, shared by dp ranks; activations kept for each microbatch "
       "in flight, and what all of them share");
}

StageMemory largest_memory(const Strategy& strategy, const Work& work) {
  StageMemory largest;
  for (int stage = 0; stage < strategy.pp; ++stage) {
    const StageMemory memory = stage_memory(strategy, work, stage);
    if (memory.total_bytes() > largest.total_bytes()) largest = memory;
  }
  return largest;
}

namespace {

/// T: forward and whole backward of one microbatch.
double seconds(const StageWork& stage) { return stage.forward + stage.backward; }

/// The stage with the largest T.
const StageWork& busiest(const Work& work) {
  return *std::max_element(work.stages.begin(), work.stages.end(),
                           [](const StageWork& a, const StageWork& b) { return seconds(a) < seconds(b); });
}

/// Σ T over all stages.
double around(const Work& work) {
  double sum = 0;
  for (const StageWork& stage : work.stages) sum += seconds(stage);
  return sum;
}

}  // namespace

double pipeline_seconds(const Strategy& strategy, const Work& work) {
  const double m = work.microbatches, p = strategy.pp, slowest = seconds(busiest(work)), sum = around(work);
  const double round_trip = sum + 2 * (p - 1) * work.hop;  // Λ
  if (strategy.schedule == "1f1b") {
    double cycle = 0;
    todo("25.3b", "for each first stage i, let the last one j grow: the largest mean over stages i … j");
    return round_trip + (m - 1) * cycle;
  }
  todo("25.3b", "the other schedules' closed forms");
}

double gather_seconds(const Strategy& strategy, const Work& work, double elements) {
  todo("25.3c", "p − 1 messages of a p-th of 2 bytes an element");
}

double scatter_seconds(const Strategy& strategy, const Work& work, double elements) {
  todo("25.3c", "the same, and as many additions");
}

double exposed_data(const Strategy& strategy, const Work& work, const StageWork& stage) {
  if (strategy.dp == 1) return 0;
  const double m = work.microbatches, v = strategy.chunks, others = stage.parameters - stage.late;
  const double s = scatter_seconds(strategy, work, others), g = gather_seconds(strategy, work, others);
  const double late_s = scatter_seconds(strategy, work, stage.late),
               late_g = gather_seconds(strategy, work, stage.late);
  const double additions = s - g, window = stage.backward * (1 + (v - 1) * strategy.pp) / v;
  todo("25.3c", "by ZeRO stage");
}

namespace {

/// How long before stage 0 the pipeline leaves stage `stage`: the backwards of the last microbatch that are still to
/// go.
double lead(const Strategy& strategy, const Work& work, std::size_t stage) {
  if (strategy.schedule == "zb-h1") return 0;  // weights are left to the end everywhere
  double seconds = 0;
  for (std::size_t s = 0; s < stage; ++s) seconds += work.stages[s].backward / strategy.chunks + work.hop;
  return seconds;
}

/// norm, and the bytes that the optimizer moves.
double update_seconds(const Strategy& strategy, const Work& work, const StageWork& stage) {
  const double own = stage.parameters / (strategy.zero >= 1 ? strategy.dp : 1);
  const double gradients = stage.parameters / (strategy.zero >= 2 ? strategy.dp : 1);
  return work.norm + (30 * own + 2 * gradients) / work.memory_bytes_per_second;
}

}  // namespace

StepTime step_time(const Strategy& strategy, const Work& work) {
  const StageWork& most = busiest(work);
  const double m = work.microbatches;
  StepTime time;
  todo("25.3c",
       "m microbatches of the busiest stage in three kinds; what the pipeline takes beyond them, without and with "
       "hops; then the largest of each stage's data (given: lead) and update (given: update_seconds)");
}

std::vector<Rated> choose(std::vector<Rated> all, double memory_bytes, std::size_t count) {
  todo("25.3d", "forget what does not fit; sort by seconds, and equal seconds by memory; keep `count`");
}

std::string limit(const StepTime& time) {
  const std::array<std::pair<double, std::string>, 6> costs = {{{time.recomputed, "recomputation"},
                                                                {time.tensor, "tensor parallelism"},
                                                                {time.bubble, "bubble"},
                                                                {time.hops, "pipeline hops"},
                                                                {time.data, "data parallelism"},
                                                                {time.update, "optimizer"}}};
  todo("25.3d", "the largest of `costs`, unless compute is nearly all");
}

}  // namespace lockstep::week25
