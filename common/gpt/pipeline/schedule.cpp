#include "common/gpt/pipeline/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "common/error.hpp"

namespace lockstep {

namespace {

constexpr std::string_view kLetters = "FBIW";
constexpr int kMostNumbered = 1 << 20, kMostStages = 1024;

/// Of a microbatch or chunk.
std::optional<int> number_of(std::string_view digits) {
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || number < 0 || number >= kMostNumbered) return {};
  return number;
}

bool is_forward(const Step& step) { return step.work == Work::forward; }
/// The step that a neighbour waits for, going back.
bool gives_input_gradient(const Step& step) { return step.work == Work::backward || step.work == Work::input_gradient; }
bool gives_weight_gradient(const Step& step) {
  return step.work == Work::backward || step.work == Work::weight_gradient;
}

/// Where a step is, by what it gives: forward, input gradient and weight gradient of (microbatch, chunk), or −1.
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
  return fmt::format("{} microbatch{} and {} chunk{}", shape.microbatches, shape.microbatches == 1 ? "" : "es",
                     shape.chunks, shape.chunks == 1 ? "" : "s");
}

std::string wrong_range(const StageSchedule& stage, const PipelineShape& shape) {
  for (const Step& step : stage)
    if (step.microbatch < 0 || step.microbatch >= shape.microbatches || step.chunk < 0 || step.chunk >= shape.chunks)
      return fmt::format("has {}, outside of {}", to_string(step, 2), counts(shape));
  return "";
}

/// Each once, and on the stage itself in an order that can be.
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

/// The step of a neighbour that `step` of `stage` needs, and which neighbour; none at the ends of the model.
struct Need {
  int stage = 0;
  Step step;
};
std::optional<Need> need_of(int stage, const Step& step, const PipelineShape& shape) {
  if (is_forward(step)) {
    if (stage > 0) return Need{stage - 1, step};
    if (step.chunk > 0) return Need{shape.stages - 1, {Work::forward, step.microbatch, step.chunk - 1}};
  } else if (gives_input_gradient(step)) {
    if (stage + 1 < shape.stages) return Need{stage + 1, {Work::input_gradient, step.microbatch, step.chunk}};
    if (step.chunk + 1 < shape.chunks) return Need{0, {Work::input_gradient, step.microbatch, step.chunk + 1}};
  }
  return std::nullopt;
}

int place_of(const Places& at, const Step& step) {
  return is_forward(step) ? at.forward(step.microbatch, step.chunk) : at.input_gradient(step.microbatch, step.chunk);
}

/// Runs the schedule without clocks: every stage as far as it can. Where all are stuck, the step that waits for itself.
std::string stuck(const Schedule& schedule, const std::vector<Places>& at, const PipelineShape& shape) {
  std::vector<int> done(schedule.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < shape.stages; ++s) {
      const auto& stage = schedule[static_cast<std::size_t>(s)];
      int& next = done[static_cast<std::size_t>(s)];
      while (next < static_cast<int>(stage.size())) {
        const auto need = need_of(s, stage[static_cast<std::size_t>(next)], shape);
        if (need && done[static_cast<std::size_t>(need->stage)] <=
                        place_of(at[static_cast<std::size_t>(need->stage)], need->step))
          break;
        ++next;
        moved = true;
      }
    }
  }
  for (int s = 0; s < shape.stages; ++s) {
    const auto& stage = schedule[static_cast<std::size_t>(s)];
    const int next = done[static_cast<std::size_t>(s)];
    if (next == static_cast<int>(stage.size())) continue;
    const Step& waits = stage[static_cast<std::size_t>(next)];
    const Need need = *need_of(s, waits, shape);
    const Step& there = schedule[static_cast<std::size_t>(need.stage)]
                                [static_cast<std::size_t>(done[static_cast<std::size_t>(need.stage)])];
    return fmt::format("stage {} waits before {} for {} of stage {}, which waits before {}: a cycle", s,
                       to_string(waits, shape.chunks), to_string(need.step, shape.chunks), need.stage,
                       to_string(there, shape.chunks));
  }
  return "";
}

/// Do both ends of the link a → b see the messages in the same order? `order(stage, i)`: the place of message i.
template <class Sent, class Received>
std::string crossed(const StageSchedule& sender, const StageSchedule& receiver, int a, int b, const Sent& sent,
                    const Received& received, int chunks) {
  std::vector<Step> out, in;
  for (const Step& step : sender)
    if (const auto message = sent(step)) out.push_back(*message);
  for (const Step& step : receiver)
    if (const auto message = received(step)) in.push_back(*message);
  for (std::size_t i = 0; i < out.size() && i < in.size(); ++i)
    if (out[i] != in[i])
      return fmt::format(
          "message {} from stage {} to stage {} is of {} where it is sent and of {} where it is received", i, a, b,
          to_string(out[i], chunks), to_string(in[i], chunks));
  return "";
}

std::string crossed_links(const Schedule& schedule, const PipelineShape& shape) {
  using Message = std::optional<Step>;
  const auto at = [&](int s) -> const StageSchedule& { return schedule[static_cast<std::size_t>(s)]; };
  const auto whole = [](const Step& step) { return Step{Work::input_gradient, step.microbatch, step.chunk}; };
  for (int s = 0; s + 1 < shape.stages; ++s) {
    const auto forward = [](const Step& step) { return is_forward(step) ? Message(step) : Message(); };
    const auto back = [&](const Step& step) { return gives_input_gradient(step) ? Message(whole(step)) : Message(); };
    if (std::string wrong = crossed(at(s), at(s + 1), s, s + 1, forward, forward, shape.chunks); !wrong.empty())
      return wrong;
    if (std::string wrong = crossed(at(s + 1), at(s), s + 1, s, back, back, shape.chunks); !wrong.empty()) return wrong;
  }
  if (shape.chunks == 1 || shape.stages == 1) return "";
  const int last = shape.stages - 1;  // chunk c of the last stage goes on as chunk c + 1 of the first
  const auto out = [&](const Step& step) {
    return is_forward(step) && step.chunk + 1 < shape.chunks ? Message(step) : Message();
  };
  const auto in = [&](const Step& step) {
    return is_forward(step) && step.chunk > 0 ? Message(Step{Work::forward, step.microbatch, step.chunk - 1})
                                              : Message();
  };
  const auto back_out = [&](const Step& step) {
    return gives_input_gradient(step) && step.chunk > 0 ? Message(whole(step)) : Message();
  };
  const auto back_in = [&](const Step& step) {
    return gives_input_gradient(step) && step.chunk + 1 < shape.chunks
               ? Message(Step{Work::input_gradient, step.microbatch, step.chunk + 1})
               : Message();
  };
  if (std::string wrong = crossed(at(last), at(0), last, 0, out, in, shape.chunks); !wrong.empty()) return wrong;
  return crossed(at(0), at(last), 0, last, back_out, back_in, shape.chunks);
}

}  // namespace

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
      throw Error(Verdict::usage, fmt::format("'{}' is no step: F3, B3, I3 (input gradient), W3 (weight gradient), or "
                                              "F3.1 for chunk 1; numbers are below {}",
                                              word, kMostNumbered));
    stage.push_back({static_cast<Work>(letter), *microbatch, *chunk});
  }
  return stage;
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
  const double needed = 2.0 * read.shape.microbatches * read.shape.chunks;
  for (std::size_t s = 0; s < read.schedule.size(); ++s)  // before the checker takes memory for all of them
    if (const std::size_t steps = read.schedule[s].size(); static_cast<double>(steps) < needed)
      refuse(fmt::format(": stage {} has {} step{}; {} need at least {:.0f}", s, steps, steps == 1 ? "" : "s",
                         counts(read.shape), needed));
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
  if (static_cast<int>(schedule.size()) != shape.stages)
    return fmt::format("the schedule has {} stages, expected {}", schedule.size(), shape.stages);
  std::vector<Places> at;
  for (int s = 0; s < shape.stages; ++s) {
    const StageSchedule& stage = schedule[static_cast<std::size_t>(s)];
    if (std::string wrong = wrong_range(stage, shape); !wrong.empty()) return fmt::format("stage {} {}", s, wrong);
    at.emplace_back(stage, shape);
    if (std::string wrong = wrong_on_its_own(at.back(), shape); !wrong.empty())
      return fmt::format("stage {} {}", s, wrong);
    if (const int peak = peak_in_flight(stage); most_in_flight > 0 && peak > most_in_flight)
      return fmt::format("stage {} holds the activations of {} microbatches at its peak, allowed {}", s, peak,
                         most_in_flight);
  }
  if (std::string wrong = stuck(schedule, at, shape); !wrong.empty()) return wrong;
  return crossed_links(schedule, shape);
}

std::vector<std::vector<TimedStep>> time_schedule(const Schedule& schedule, const PipelineShape& shape,
                                                  const StepTimes& times) {
  return time_schedule(schedule, shape, std::vector<StepTimes>(schedule.size(), times));
}

std::vector<std::vector<TimedStep>> time_schedule(const Schedule& schedule, const PipelineShape& shape,
                                                  const std::vector<StepTimes>& by_stage) {
  const auto seconds = [](Work work, const StepTimes& times) {
    switch (work) {
      case Work::forward: return times.forward;
      case Work::backward: return times.input_gradient + times.weight_gradient;
      case Work::input_gradient: return times.input_gradient;
      case Work::weight_gradient: return times.weight_gradient;
    }
    return 0.0;
  };
  std::vector<Places> at;
  for (const StageSchedule& stage : schedule) at.emplace_back(stage, shape);
  std::vector<std::vector<TimedStep>> timed(schedule.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < shape.stages; ++s) {
      const auto& stage = schedule[static_cast<std::size_t>(s)];
      auto& mine = timed[static_cast<std::size_t>(s)];
      while (mine.size() < stage.size()) {
        const Step& step = stage[mine.size()];
        double begin = mine.empty() ? 0 : mine.back().end;
        if (const auto need = need_of(s, step, shape)) {
          const auto& theirs = timed[static_cast<std::size_t>(need->stage)];
          const auto place = static_cast<std::size_t>(place_of(at[static_cast<std::size_t>(need->stage)], need->step));
          if (theirs.size() <= place) break;
          const double transfer = by_stage[static_cast<std::size_t>(is_forward(step) ? need->stage : s)].transfer;
          begin = std::max(begin, theirs[place].end + (need->stage == s ? 0 : transfer));
        }
        mine.push_back({step, begin, begin + seconds(step.work, by_stage[static_cast<std::size_t>(s)])});
        moved = true;
      }
    }
  }
  return timed;
}

}  // namespace lockstep
