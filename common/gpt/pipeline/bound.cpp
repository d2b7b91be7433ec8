#include "common/gpt/pipeline/bound.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// Earliest times of one microbatch that has the pipeline to itself, by part.
struct Alone {
  std::vector<StepTimes> times;
  std::vector<double> arrives;  // start of its forward
  std::vector<double> returns;  // start of its input gradient

  Alone(const PipelineShape& shape, const std::vector<std::vector<StepTimes>>& by_chunk) {
    const int parts = shape.stages * shape.chunks;
    for (int k = 0; k < parts; ++k) {
      const ChunkOfStage here = chunk_of_part(shape, k);
      times.push_back(by_chunk[static_cast<std::size_t>(here.stage)][static_cast<std::size_t>(here.chunk)]);
    }
    const auto hop = [&](int k) {  // from part k to the next; free within a stage
      const ChunkOfStage from = chunk_of_part(shape, k), to = chunk_of_part(shape, k + 1);
      const int link = goes_up(shape, from.chunk) ? to.stage : from.stage;
      return from.stage == to.stage ? 0 : by_chunk[static_cast<std::size_t>(link)].front().transfer;
    };
    arrives.assign(times.size(), 0);
    for (std::size_t k = 1; k < times.size(); ++k)
      arrives[k] = arrives[k - 1] + times[k - 1].forward + hop(static_cast<int>(k) - 1);
    returns.assign(times.size(), arrives.back() + times.back().forward);
    for (std::size_t k = times.size() - 1; k-- > 0;)
      returns[k] = returns[k + 1] + times[k + 1].input_gradient + hop(static_cast<int>(k));
  }

  /// Time from the end of part k's input gradient, back through the first part, to the end of that part's W.
  double way_out(std::size_t k) const {
    return returns.front() + times.front().input_gradient + times.front().weight_gradient -
           (returns[k] + times[k].input_gradient);
  }
  /// Time from the start of part k's forward to the end of its W.
  double held(std::size_t k) const {
    return returns[k] + times[k].input_gradient + times[k].weight_gradient - arrives[k];
  }
};

double bound_of_stage(const PipelineShape& shape, const Alone& alone, int stage, int limit) {
  const double m = shape.microbatches;
  double forwards = 0, inputs = 0, weights = 0, longest = 0, held = 0, back = 0;
  for (int c = 0; c < shape.chunks; ++c) {
    const auto k = static_cast<std::size_t>(part_of(shape, stage, c));
    const StepTimes& times = alone.times[k];
    forwards += m * times.forward;
    inputs += m * times.input_gradient;
    weights += m * times.weight_gradient;
    longest = std::max(longest, times.forward);
    held += m * alone.held(k);
    back = c == 0 ? alone.returns[k] : std::min(back, alone.returns[k]);
  }
  const auto lowest = static_cast<std::size_t>(part_of(shape, stage, 0));
  const double begin = alone.arrives[lowest];
  const double most = limit > 0 ? std::min(forwards, limit * longest) : forwards;
  const double idle = std::max(0.0, back - begin - most);
  double bound = begin + idle + forwards + inputs + std::max(weights, alone.way_out(lowest));
  bound = std::max(bound, begin + alone.held(lowest));  // the round trip of one microbatch
  return limit > 0 ? std::max(bound, begin + held / limit) : bound;
}

}  // namespace

double shortest_makespan(const PipelineShape& shape, const std::vector<std::vector<StepTimes>>& by_chunk,
                         const std::vector<int>& most_in_flight) {
  const Alone alone(shape, by_chunk);
  double bound = 0;
  for (int s = 0; s < shape.stages; ++s)
    bound = std::max(bound, bound_of_stage(shape, alone, s,
                                           most_in_flight.empty() ? 0 : most_in_flight[static_cast<std::size_t>(s)]));
  return bound;
}

}  // namespace lockstep
