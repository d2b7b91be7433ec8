// Pipeline schedules as data: what each stage does, one step after the other. A schedule can be printed, drawn, counted
// and checked without running anything; one interpreter (week 24) runs any of them.
//
// Symbols: p stages, m microbatches, v chunks a stage. Chunk c of stage s is part c·p + s of the model, so that with
// v > 1 each microbatch goes round the stages v times (interleaving, arXiv 2104.04473, section 2.2). Placed in a V,
// every second chunk comes back up instead: part c·p + p − 1 − s (arXiv 2405.15362).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// A backward pass is two halves: the gradient of the input, which the stage before waits for, and the gradients of the
/// weights, which nobody does (arXiv 2401.10241). `backward` is both, one after the other.
enum class Work : std::uint8_t { forward, backward, input_gradient, weight_gradient };

struct Step {
  Work work = Work::forward;
  int microbatch = 0;
  int chunk = 0;

  auto operator<=>(const Step&) const = default;  // NOLINT(modernize-use-nullptr): of clang-tidy 14
};

using StageSchedule = std::vector<Step>;
using Schedule = std::vector<StageSchedule>;  // by stage

/// How the parts of the model lie on the stages.
enum class Placement : std::uint8_t { around, vee };

struct PipelineShape {
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;
  Placement placement = Placement::around;

  bool operator==(const PipelineShape&) const = default;
};

/// Where a part of the model is; parts count from 0 to p·v − 1, in the order of a forward pass.
struct ChunkOfStage {
  int stage = 0;
  int chunk = 0;
};
ChunkOfStage chunk_of_part(const PipelineShape& shape, int part);
int part_of(const PipelineShape& shape, int stage, int chunk);
/// Whether this chunk's activations go from the last stage to the first: a V's odd chunks.
bool goes_up(const PipelineShape& shape, int chunk);

/// "F3", "B3", "I3" (input gradient), "W3"; with several chunks "F3.1".
std::string to_string(const Step& step, int chunks = 1);

/// Reads one stage's line of such words: "F0 F1 B0 B1". Throws Error(usage) that names the word.
StageSchedule parse_stage(const std::string& line);

/// A schedule and the shape that its steps have.
struct ShapedSchedule {
  PipelineShape shape;
  Schedule schedule;
};
/// Reads a file's text: such a line a stage; "#" begins a comment; a first line "placement v" puts two chunks a stage
/// in a V. Throws Error(usage) that begins with `name` and names line and word, also where there are more than 1024
/// stages, or too few steps for the microbatches and chunks.
ShapedSchedule parse_schedule(const std::string& text, const std::string& name);

/// The first thing that is wrong with a schedule, in a sentence that names the two steps; "" when nothing is. It is
/// right when
///   each stage does the forward and the backward of each microbatch and chunk once (a backward in two halves, or
///   whole, the weights' half after the input's); the steps can be run: each starts after what it needs, on its own
///   stage and on its neighbour's, has ended; both ends of every link send and receive microbatches in the same order;
///   no stage holds the activations of more than `most_in_flight` (where ≥ 1) microbatches × chunks.
std::string check_schedule(const Schedule& schedule, const PipelineShape& shape, int most_in_flight = 0);
/// The same with a limit for each stage; empty: none.
std::string check_schedule(const Schedule& schedule, const PipelineShape& shape,
                           const std::vector<int>& most_in_flight);

/// Most microbatches × chunks of a stage that have had their forward and not yet all of their backward.
int peak_in_flight(const StageSchedule& stage);

/// What a step takes, in seconds, on every stage.
struct StepTimes {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double transfer = 0;  // of a hop, beside the work of both stages
  double occupied = 0;  // of that, while the link carries no other message the same way
};

/// When each step begins and ends, if every stage starts each step as soon as it and what it needs are ready: the
/// schedule's own time, by arithmetic alone. The schedule passes check_schedule.
struct TimedStep {
  Step step;
  double begin = 0;
  double end = 0;
};
std::vector<std::vector<TimedStep>> time_schedule(const Schedule& schedule, const PipelineShape& shape,
                                                  const StepTimes& times);
/// The same for stages that differ; `transfer` is that of the link to the next stage, both ways (of the last stage: to
/// the first).
std::vector<std::vector<TimedStep>> time_schedule(const Schedule& schedule, const PipelineShape& shape,
                                                  const std::vector<StepTimes>& by_stage);
/// And for chunks that differ: by stage, then chunk. A link is as its stage's first chunk says.
std::vector<std::vector<TimedStep>> time_schedule(const Schedule& schedule, const PipelineShape& shape,
                                                  const std::vector<std::vector<StepTimes>>& by_chunk);

}  // namespace lockstep
