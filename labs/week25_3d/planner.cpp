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
  todo("25.3a",
       "by schedule. Of n forwards, chunk c has p in each whole round of p·v, and of the rest what comes after c·p, "
       "at most p");
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

/// Over all stages: ΣT, ΣW, and Σ hop without the last one's, which is the way back to the first.
struct Sums {
  double work = 0, weights = 0, hops = 0;
};
Sums around(const Work& work) {
  Sums sums;
  for (const StageWork& stage : work.stages) {
    sums.work += seconds(stage);
    sums.weights += stage.weights;
    sums.hops += stage.hop;
  }
  sums.hops -= work.stages.back().hop;
  return sums;
}

/// 1F1B's pace, by s: the slowest round trip among stages s, s + 1, … alone.
std::vector<double> paces(const std::vector<StageWork>& stages) {
  std::vector<double> pace(stages.size() + 1, 0);
  todo("25.3b",
       "from the last stage s to the first: pace[s + 1], or a round trip from s to any j ≥ s, whichever is slower");
  return pace;
}

/// zb-h1: what is left to do when the first microbatch is back, on the stage where that is most.
double zero_bubble_rest(const Work& work) {
  const int p = static_cast<int>(work.stages.size()), m = work.microbatches;
  double most = 0;
  for (int s = 0; s < p; ++s) {
    const StageWork& stage = work.stages[static_cast<std::size_t>(s)];
    const double inputs = stage.backward - stage.weights;  // I
    todo("25.3b",
         "m·T, without the min(p − s, m) forwards and the one I that are done, and without the min(s, m − 1) W that "
         "others do not wait for");
  }
  return most;
}

}  // namespace

double pipeline_seconds(const Strategy& strategy, const Work& work) {
  const int p = strategy.pp, m = work.microbatches, v = strategy.chunks;
  const auto [sum, weights, hops] = around(work);
  const double slowest = seconds(busiest(work)), round_trip = sum + 2 * hops;  // Λ
  double forward = 0, backward = 0;
  for (const StageWork& stage : work.stages) {
    forward = std::max(forward, stage.forward);
    backward = std::max(backward, stage.backward);
  }
  todo("25.3b", "by schedule; for 1f1b add up the paces of microbatches 1 … m − 1");
}

double gather_seconds(const Strategy& strategy, const Work& work, double elements) {
  const double part = 2 * elements / strategy.dp;
  return (strategy.dp - 1) * (work.data.alpha + part * work.data.beta);
}

double scatter_seconds(const Strategy& strategy, const Work& work, double elements) {
  todo("25.3c", "the gather's, and as many additions");
}

double exposed_data(const Strategy& strategy, const Work& work, const StageWork& stage) {
  if (strategy.dp == 1) return 0;
  const double m = work.microbatches, v = strategy.chunks, others = stage.parameters - stage.late;
  const double s = scatter_seconds(strategy, work, others), g = gather_seconds(strategy, work, others);
  const double late_s = scatter_seconds(strategy, work, stage.late),
               late_g = gather_seconds(strategy, work, stage.late);
  const double additions = s - g, share = stage.backward > 0 ? stage.window / stage.backward : 0;
  const double last = stage.window * (1 + (v - 1) * strategy.pp) / v;  // of the last microbatch
  todo("25.3c", "by ZeRO stage");
}

namespace {

/// How long before stage 0 the pipeline leaves stage `stage`: the backwards of the last microbatch that are still to
/// go.
double lead(const Strategy& strategy, const Work& work, std::size_t stage) {
  if (strategy.schedule == "zb-h1") return 0;  // weights are left to the end everywhere
  double seconds = 0;
  for (std::size_t s = 0; s < stage; ++s) seconds += work.stages[s].backward / strategy.chunks + work.stages[s].hop;
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
  time.recomputed = m * most.recomputed;
  time.tensor = m * most.tensor;
  time.compute = m * seconds(most) - time.recomputed - time.tensor;
  todo("25.3c",
       "what the pipeline takes beyond the busiest stage's m microbatches, without hops, and what hops add; then the "
       "largest of each stage's data (given: lead) and update (given: update_seconds)");
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
