// Pipeline schedules as data: the steps of each stage, in order. A schedule can be printed, drawn, counted and checked
// without running anything; one interpreter (week 24) runs any of them.
//
// Symbols: p stages, m microbatches, v chunks per stage. Chunk c of stage s is part c·p + s of the model, so with v > 1
// each microbatch passes through all stages v times (interleaving, arXiv 2104.04473, section 2.2). Placed in a V, every
// second chunk runs from the last stage back to the first: part c·p + p − 1 − s (arXiv 2405.15362).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// A backward pass has two halves: the gradient of the input, which the preceding stage waits for, and the gradients of
/// the weights, which no stage waits for (arXiv 2401.10241). `backward` is both, one after the other.
enum class Work : std::uint8_t { forward, backward, input_gradient, weight_gradient };

struct Step {
  Work work = Work::forward;
  int microbatch = 0;
  int chunk = 0;

  auto operator<=>(const Step&) const = default;  // NOLINT(modernize-use-nullptr): of clang-tidy 14
};

using StageSchedule = std::vector<Step>;
using Schedule = std::vector<StageSchedule>;  // by stage

/// Placement of the model's parts on the stages.
enum class Placement : std::uint8_t { around, vee };

struct PipelineShape {
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;
  Placement placement = Placement::around;

  bool operator==(const PipelineShape&) const = default;
};

/// The stage and chunk of a part; parts count from 0 to p·v − 1, in the order of a forward pass.
struct ChunkOfStage {
  int stage = 0;
  int chunk = 0;
};
ChunkOfStage chunk_of_part(const PipelineShape& shape, int part);
int part_of(const PipelineShape& shape, int stage, int chunk);
/// True if this chunk's activations travel from the last stage to the first: a V's odd chunks.
bool goes_up(const PipelineShape& shape, int chunk);

/// "F3", "B3", "I3" (input gradient), "W3"; with several chunks "F3.1".
std::string to_string(const Step& step, int chunks = 1);

/// Reads one stage's line of such words: "F0 F1 B0 B1". Throws Error(usage) that names the invalid word.
StageSchedule parse_stage(const std::string& line);

/// A schedule and its shape.
struct ShapedSchedule {
  PipelineShape shape;
  Schedule schedule;
};
/// Reads a file's text: one such line per stage; "#" begins a comment; a first line "placement v" puts two chunks per
/// stage in a V. Throws Error(usage) that begins with `name` and names line and word, also if there are more than 1024
/// stages, or too few steps for the microbatches and chunks.
ShapedSchedule parse_schedule(const std::string& text, const std::string& name);

/// Returns the first error in a schedule, in a sentence that names the two steps; "" if there is none. A schedule is
/// correct if
/// - each stage does the forward and the backward of each microbatch and chunk once (a backward whole, or in two halves
///   with the weights' half after the input's);
/// - the steps can run: each starts after the steps that it depends on, on its own stage and on its neighbour's;
/// - both ends of every link send and receive microbatches in the same order;
/// - no stage holds the activations of more than `most_in_flight` (if ≥ 1) microbatches × chunks.
std::string check_schedule(const Schedule& schedule, const PipelineShape& shape, int most_in_flight = 0);
/// The same with one limit per stage; empty: no limits.
std::string check_schedule(const Schedule& schedule, const PipelineShape& shape,
                           const std::vector<int>& most_in_flight);

/// Returns the largest number of microbatches × chunks on a stage between their forward and the end of their backward.
int peak_in_flight(const StageSchedule& stage);

/// Durations of the steps, in seconds, on every stage.
struct StepTimes {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double transfer = 0;  // time of one hop, which overlaps with the work of both stages
  double occupied = 0;  // the part of it during which the link carries no other message in that direction
};

/// Start and end of each step if every stage starts each step as soon as it and the step's inputs are ready: the
/// schedule's own time, by arithmetic alone. The schedule passes check_schedule.
struct TimedStep {
  Step step;
  double begin = 0;
  double end = 0;
};
std::vector<std::vector<TimedStep>> time_schedule(const Schedule& schedule, const PipelineShape& shape,
                                                  const StepTimes& times);
/// The same for unequal stages; `transfer` is that of the link to the next stage, in both directions (for the last
/// stage: to the first).
std::vector<std::vector<TimedStep>> time_schedule(const Schedule& schedule, const PipelineShape& shape,
                                                  const std::vector<StepTimes>& by_stage);
/// The same for unequal chunks: by stage, then chunk. A link takes its times from its stage's first chunk.
std::vector<std::vector<TimedStep>> time_schedule(const Schedule& schedule, const PipelineShape& shape,
                                                  const std::vector<std::vector<StepTimes>>& by_chunk);

}  // namespace lockstep
