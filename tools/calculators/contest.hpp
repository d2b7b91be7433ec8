// Pipelines of unequal stages, with a limit of memory for each: what a schedule must keep to, how long any schedule
// takes at least, and a ranking of several. The checker and the simulator decide.
#pragma once

#include <string>
#include <vector>

#include "common/gpt/pipeline/schedule.hpp"

namespace lockstep::bench {

/// Options of ./lab pipeline about its stages.
struct ContestOptions {
  std::string pipeline;             ///< a given one, by its number from 1: 24.7's three, then two more; "": none
  std::vector<std::string> work;    ///< by stage, over that of the times given
  std::vector<std::string> limits;  ///< one for all stages, or by stage
};

/// One for each stage where it was asked for; else empty.
struct Contest {
  std::string name;              ///< of a given pipeline
  PipelineShape shape;           ///< of that: a schedule must have its stages and microbatches, in chunks as it likes
  std::vector<StepTimes> times;  ///< by stage, of all its chunks
  std::vector<int> limits;       ///< microbatches in flight; of v chunks a stage each counts 1/v
  bool asked() const { return !times.empty() || !limits.empty(); }
};

/// The contest of a pipeline of `stages` stages, whose steps take `times` unless the options differ. Throws
/// Error(usage) if the options do not fit.
Contest contest_of(const ContestOptions& options, int stages, const StepTimes& times);
/// The stages and microbatches that the options speak of; 0: any.
PipelineShape asked_shape(const ContestOptions& options);

/// Why a schedule does not count: another shape, or what check_schedule says; "" where it does.
std::string refusal(const Contest& contest, const Schedule& schedule, const PipelineShape& shape);

/// By stage, of one chunk.
std::vector<StepTimes> chunk_times(const Contest& contest, const StepTimes& times, const PipelineShape& shape);
/// Seconds that any schedule of this shape takes at least.
double least_seconds(const Contest& contest, const StepTimes& times, const PipelineShape& shape);

/// 1F1B with as long a warm-up as the limits allow: the baseline of the ranking, not the best.
Schedule baseline(const Contest& contest, const PipelineShape& shape);

struct Entry {
  std::string name;
  double seconds = 0, least = 0;
  int in_flight = 0;
  std::string refused;  ///< why; else ""
};
/// A table, the fastest first, those that were refused last.
std::string ranking(std::vector<Entry> entries);

}  // namespace lockstep::bench
