#include "common/gpt/pipeline/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>

#include "common/error.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/parse_number.hpp"

namespace lockstep {

namespace {

constexpr std::string_view kLetters = "FBIW";
constexpr int kMostNumbered = 1 << 20, kMostStages = 1024;

/// Parses the number of a microbatch or chunk.
std::optional<int> number_of(std::string_view digits) {
  const std::optional<int> number = parse_number<int>(digits);
  return number && *number >= 0 && *number < kMostNumbered ? number : std::nullopt;
}

bool is_forward(const Step& step) { return step.work == Work::forward; }
/// True if the step computes the gradient that the preceding stage waits for.
bool gives_input_gradient(const Step& step) { return step.work == Work::backward || step.work == Work::input_gradient; }
bool gives_weight_gradient(const Step& step) {
  return step.work == Work::backward || step.work == Work::weight_gradient;
}

/// Positions of steps by their result: forward, input gradient and weight gradient of (microbatch, chunk), or −1.
class Places {
 public:
  Places(const StageSchedule& stage, const PipelineShape& shape)
      : shape_(shape),
        places_(static_cast<std::size_t>(shape.microbatches) * static_cast<std::size_t>(shape.chunks), {-1, -1, -1}) {
    for (std::size_t i = 0; i < stage.size(); ++i) {
      const Step& step = stage[i];
      const auto place = static_cast<int>(i);
      auto& [forward, input, weight] = places_[index(step.microbatch, step.chunk)];
      if (is_forward(step)) set(forward, place, step);
      if (gives_input_gradient(step)) set(input, place, step);
      if (gives_weight_gradient(step)) set(weight, place, step);
    }
  }
  int forward(int m, int c) const { return places_[index(m, c)][0]; }
  int input_gradient(int m, int c) const { return places_[index(m, c)][1]; }
  int weight_gradient(int m, int c) const { return places_[index(m, c)][2]; }
  const std::string& twice() const { return twice_; }

 private:
  std::size_t index(int m, int c) const {
    return static_cast<std::size_t>(c) * static_cast<std::size_t>(shape_.microbatches) + static_cast<std::size_t>(m);
  }
  void set(int& place, int here, const Step& step) {
    if (place >= 0 && twice_.empty())
      twice_ = fmt::format("does {} twice: as steps {} and {}", to_string(step, shape_.chunks), place, here);
    place = here;
  }

  PipelineShape shape_;
  std::vector<std::array<int, 3>> places_;
  std::string twice_;
};

/// "4 microbatches and 1 chunk".
std::string counts(const PipelineShape& shape) {
  return counted(shape.microbatches, "microbatch") + " and " + counted(shape.chunks, "chunk");
}

std::string wrong_range(const StageSchedule& stage, const PipelineShape& shape) {
  for (const Step& step : stage)
    if (step.microbatch < 0 || step.microbatch >= shape.microbatches || step.chunk < 0 || step.chunk >= shape.chunks)
      return fmt::format("has {}, outside of {}", to_string(step, 2), counts(shape));
  return "";
}

/// Checks one stage: every step occurs once, and in a possible order.
std::string wrong_on_its_own(const Places& at, const PipelineShape& shape) {
  if (!at.twice().empty()) return at.twice();
  for (int c = 0; c < shape.chunks; ++c)
    for (int m = 0; m < shape.microbatches; ++m) {
      const auto name = [&](Work work) { return to_string({work, m, c}, shape.chunks); };
      if (at.forward(m, c) < 0) return fmt::format("lacks {}", name(Work::forward));
      if (at.input_gradient(m, c) < 0) return fmt::format("lacks {}", name(Work::backward));
      if (at.weight_gradient(m, c) < 0)
        return fmt::format("lacks {} after {}", name(Work::weight_gradient), name(Work::input_gradient));
      if (at.input_gradient(m, c) < at.forward(m, c))
        return fmt::format("does {} before {}", name(Work::backward), name(Work::forward));
      if (at.weight_gradient(m, c) < at.input_gradient(m, c))
        return fmt::format("does {} before {}", name(Work::weight_gradient), name(Work::input_gradient));
    }
  return "";
}

/// The stage and chunk that wait for a step's result (`along` 1), or give what it needs (−1); stage −1 if none do.
ChunkOfStage neighbour(int stage, const Step& step, const PipelineShape& shape, int along) {
  const int part = part_of(shape, stage, step.chunk) + (is_forward(step) ? along : -along);
  if (step.work == Work::weight_gradient || part < 0 || part == shape.stages * shape.chunks) return {-1, 0};
  return chunk_of_part(shape, part);
}

/// Plays the schedule, every stage as far as possible. If all are stuck, names the step that waits for itself.
std::string stuck(const Schedule& schedule, const PipelineShape& shape) {
  const std::vector<std::vector<TimedStep>> done = time_schedule(schedule, shape, StepTimes{});
  for (int s = 0; s < shape.stages; ++s) {
    const auto& stage = schedule[static_cast<std::size_t>(s)];
    const std::size_t next = done[static_cast<std::size_t>(s)].size();
    if (next == stage.size()) continue;
    const Step& waits = stage[next];
    const ChunkOfStage from = neighbour(s, waits, shape, -1);
    const auto giver = static_cast<std::size_t>(from.stage);
    const Work gives = is_forward(waits) ? Work::forward : Work::input_gradient;
    return fmt::format("stage {} waits before {} for {} of stage {}, which waits before {}: a cycle", s,
                       to_string(waits, shape.chunks), to_string({gives, waits.microbatch, from.chunk}, shape.chunks),
                       from.stage, to_string(schedule[giver][done[giver].size()], shape.chunks));
  }
  return "";
}

/// Checks that both ends of the link a → b see the activations, or the gradients, in the same order.
std::string crossed(const Schedule& schedule, const PipelineShape& shape, int a, int b, Work kind) {
  const auto is_kind = [&](const Step& step) { return is_forward(step) == (kind == Work::forward); };
  std::vector<Step> out, in;  // in the sender's numbering
  for (const Step& step : schedule[static_cast<std::size_t>(a)])
    if (is_kind(step) && neighbour(a, step, shape, 1).stage == b) out.push_back({kind, step.microbatch, step.chunk});
  for (const Step& step : schedule[static_cast<std::size_t>(b)])
    if (const ChunkOfStage from = neighbour(b, step, shape, -1); is_kind(step) && from.stage == a)
      in.push_back({kind, step.microbatch, from.chunk});
  for (std::size_t i = 0; i < out.size() && i < in.size(); ++i)
    if (out[i] != in[i])
      return fmt::format(
          "message {} from stage {} to stage {} is of {} where it is sent and of {} where it is received", i, a, b,
          to_string(out[i], shape.chunks), to_string(in[i], shape.chunks));
  return "";
}

std::string crossed_links(const Schedule& schedule, const PipelineShape& shape) {
  for (int s = 0; s < shape.stages; ++s) {
    const int next = (s + 1) % shape.stages;
    if (next == s) break;
    for (const auto& [from, to] : {std::pair{s, next}, {next, s}})
      for (const Work kind : {Work::forward, Work::input_gradient})
        if (std::string wrong = crossed(schedule, shape, from, to, kind); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

bool goes_up(const PipelineShape& shape, int chunk) { return shape.placement == Placement::vee && chunk % 2 == 1; }

ChunkOfStage chunk_of_part(const PipelineShape& shape, int part) {
  const int chunk = part / shape.stages, along = part % shape.stages;
  return {goes_up(shape, chunk) ? shape.stages - 1 - along : along, chunk};
}

int part_of(const PipelineShape& shape, int stage, int chunk) {
  return chunk * shape.stages + (goes_up(shape, chunk) ? shape.stages - 1 - stage : stage);
}

std::string to_string(const Step& step, int chunks) {
  const char letter = kLetters[static_cast<std::size_t>(step.work)];
  return chunks > 1 ? fmt::format("{}{}.{}", letter, step.microbatch, step.chunk)
                    : fmt::format("{}{}", letter, step.microbatch);
}

StageSchedule parse_stage(const std::string& line) {
  StageSchedule stage;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::size_t letter = kLetters.find(word[0]), dot = word.find('.');
    const std::string_view rest = std::string_view(word).substr(1);
    const std::optional<int> microbatch = number_of(rest.substr(0, dot == word.npos ? dot : dot - 1));
    const std::optional<int> chunk = dot == word.npos ? 0 : number_of(std::string_view(word).substr(dot + 1));
    if (letter == kLetters.npos || !microbatch || !chunk)
      throw Error(Verdict::usage, fmt::format("'{}' is not a step: write F3, B3, I3 (input gradient), W3 (weight "
                                              "gradient), or F3.1 for chunk 1; numbers are below {}",
                                              word, kMostNumbered));
    stage.push_back({static_cast<Work>(letter), *microbatch, *chunk});
  }
  return stage;
}

/// True for "placement v", a line before the stages'.
static bool places_in_a_vee(const std::string& line) {
  std::istringstream words(line);
  std::string name, value, more;
  return words >> name >> value && !(words >> more) && name == "placement" && value == "v";
}

ShapedSchedule parse_schedule(const std::string& text, const std::string& name) {
  const auto refuse = [&](const std::string& why) { throw Error(Verdict::usage, name + why); };
  ShapedSchedule read{{0, 0, 1}, {}};
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (read.schedule.empty() && places_in_a_vee(line)) {
      read.shape.placement = Placement::vee;
      continue;
    }
    if (++read.shape.stages > kMostStages) refuse(fmt::format(" has more than {} stages", kMostStages));
    try {
      read.schedule.push_back(parse_stage(line));
    } catch (const Error& error) {
      refuse(fmt::format(", line {}: {}", number, error.what()));
    }
    for (const Step& step : read.schedule.back()) {
      read.shape.microbatches = std::max(read.shape.microbatches, step.microbatch + 1);
      read.shape.chunks = std::max(read.shape.chunks, step.chunk + 1);
    }
  }
  if (read.schedule.empty()) refuse(" holds no stage's line");
  if (read.shape.placement == Placement::vee && read.shape.chunks != 2)
    refuse(fmt::format(": a V has 2 chunks per stage, and these steps are of {}", read.shape.chunks));
  const double needed = 2.0 * read.shape.microbatches * read.shape.chunks;
  for (std::size_t s = 0; s < read.schedule.size(); ++s)  // before the checker allocates memory for all of them
    if (const std::size_t steps = read.schedule[s].size(); static_cast<double>(steps) < needed)
      refuse(fmt::format(": stage {} has {}; {} need at least {:.0f}", s, counted(steps, "step"), counts(read.shape),
                         needed));
  return read;
}

int peak_in_flight(const StageSchedule& stage) {
  int now = 0, peak = 0;
  for (const Step& step : stage) {
    if (is_forward(step)) peak = std::max(peak, ++now);
    if (gives_weight_gradient(step)) --now;
  }
  return peak;
}

std::string check_schedule(const Schedule& schedule, const PipelineShape& shape, int most_in_flight) {
  return check_schedule(schedule, shape, std::vector<int>(static_cast<std::size_t>(shape.stages), most_in_flight));
}

std::string check_schedule(const Schedule& schedule, const PipelineShape& shape,
                           const std::vector<int>& most_in_flight) {
  if (static_cast<int>(schedule.size()) != shape.stages)
    return fmt::format("the schedule has {} stages, expected {}", schedule.size(), shape.stages);
  for (int s = 0; s < shape.stages; ++s) {
    const StageSchedule& stage = schedule[static_cast<std::size_t>(s)];
    if (std::string wrong = wrong_range(stage, shape); !wrong.empty()) return fmt::format("stage {} {}", s, wrong);
    if (std::string wrong = wrong_on_its_own(Places(stage, shape), shape); !wrong.empty())
      return fmt::format("stage {} {}", s, wrong);
    const int most = most_in_flight.empty() ? 0 : most_in_flight[static_cast<std::size_t>(s)];
    if (const int peak = peak_in_flight(stage); most > 0 && peak > most)
      return fmt::format("stage {} holds the activations of {} microbatches{} at its peak, allowed {}", s, peak,
                         shape.chunks > 1 ? " × chunks" : "", most);
  }
  if (std::string wrong = stuck(schedule, shape); !wrong.empty()) return wrong;
  return crossed_links(schedule, shape);
}

std::vector<std::vector<TimedStep>> time_schedule(const Schedule& schedule, const PipelineShape& shape,
                                                  const StepTimes& times) {
  return time_schedule(schedule, shape, std::vector<StepTimes>(schedule.size(), times));
}

std::vector<std::vector<TimedStep>> time_schedule(const Schedule& schedule, const PipelineShape& shape,
                                                  const std::vector<StepTimes>& by_stage) {
  std::vector<std::vector<StepTimes>> by_chunk;
  for (const StepTimes& times : by_stage) by_chunk.emplace_back(static_cast<std::size_t>(shape.chunks), times);
  return time_schedule(schedule, shape, by_chunk);
}

namespace {

double seconds_of(Work work, const StepTimes& times) {
  switch (work) {
    case Work::forward: return times.forward;
    case Work::backward: return times.input_gradient + times.weight_gradient;
    case Work::input_gradient: return times.input_gradient;
    case Work::weight_gradient: return times.weight_gradient;
  }
  return 0.0;
}

/// The state of a stage in time_schedule.
struct Played {
  std::vector<TimedStep> steps;
  std::vector<double> forwards, backwards;  // by chunk and microbatch: arrival of what the step needs; −1: not yet
  double next_link = 0, previous_link = 0;  // times at which the links become free
};

}  // namespace

std::vector<std::vector<TimedStep>> time_schedule(const Schedule& schedule, const PipelineShape& shape,
                                                  const std::vector<std::vector<StepTimes>>& by_chunk) {
  const auto size = schedule.size();
  const auto needs = [&](Played& stage, const Step& step, int chunk) -> double& {
    const std::size_t row = static_cast<std::size_t>(chunk) * static_cast<std::size_t>(shape.microbatches);
    return (is_forward(step) ? stage.forwards : stage.backwards)[row + static_cast<std::size_t>(step.microbatch)];
  };
  std::vector<Played> played(size);
  for (std::size_t s = 0; s < size; ++s) {
    played[s].steps.reserve(schedule[s].size());
    played[s].forwards.assign(static_cast<std::size_t>(shape.microbatches * shape.chunks), -1);
    played[s].backwards = played[s].forwards;
  }
  const ChunkOfStage last = chunk_of_part(shape, shape.stages * shape.chunks - 1);
  for (int m = 0; m < shape.microbatches; ++m) {  // both ends of the model wait for no other stage
    needs(played.front(), {Work::forward, m, 0}, 0) = 0;
    needs(played[static_cast<std::size_t>(last.stage)], {Work::backward, m, 0}, last.chunk) = 0;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < size; ++s) {
      Played& mine = played[s];
      while (mine.steps.size() < schedule[s].size()) {
        const Step& step = schedule[s][mine.steps.size()];
        double begin = mine.steps.empty() ? 0 : mine.steps.back().end;
        if (step.work != Work::weight_gradient) {
          const double arrival = needs(mine, step, step.chunk);
          if (arrival < 0) break;
          begin = std::max(begin, arrival);
        }
        const double end = begin + seconds_of(step.work, by_chunk[s][static_cast<std::size_t>(step.chunk)]);
        mine.steps.push_back({step, begin, end});
        moved = true;
        const ChunkOfStage to = neighbour(static_cast<int>(s), step, shape, 1);
        if (to.stage < 0) continue;
        const auto receiver = static_cast<std::size_t>(to.stage);
        double& arrival = needs(played[receiver], step, to.chunk);
        arrival = end;
        if (receiver == s) continue;
        // The message uses the link to the next stage or, in the other direction, the link from the preceding stage.
        const bool to_next = is_forward(step) != goes_up(shape, step.chunk);
        const StepTimes& link = by_chunk[to_next ? s : (s + size - 1) % size].front();
        double& is_free = to_next ? mine.next_link : mine.previous_link;
        const double leaves = std::max(end, is_free);
        is_free = leaves + link.occupied;
        arrival = leaves + link.transfer;
      }
    }
  }
  std::vector<std::vector<TimedStep>> timed;
  for (Played& stage : played) timed.push_back(std::move(stage.steps));
  return timed;
}

}  // namespace lockstep
