// Schedules, timed by their own dependencies: what `./lab pipeline` shows, whose runs in virtual time take as long.
#include <algorithm>

#include "labs/week24_pipeline/bubble.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"
#include "tools/analyse/view/json_text.hpp"
#include "tools/calculators/contest.hpp"
#include "tools/calculators/playground/answer.hpp"

namespace lockstep::playground {

namespace {

using Timed = std::vector<std::vector<TimedStep>>;

StepTimes times_of(const Request& request) {
  const StepTimes times{request.number("f", 0, 1e6), request.number("b", 0, 1e6), request.number("w", 0, 1e6),
                        request.number("hop", 0, 1e6)};
  if (times.forward + times.input_gradient + times.weight_gradient < 1e-6)
    throw Error(Verdict::usage, "F, B and W are all 0: a step would take no time");
  return times;
}

std::vector<week24::StageUse> uses_of(const Timed& timed) {
  std::vector<week24::StageUse> uses;
  for (const std::vector<TimedStep>& stage : timed) {
    week24::StageUse use{.begin = stage.front().begin, .end = stage.back().end};
    for (const TimedStep& step : stage) use.busy += step.end - step.begin;
    uses.push_back(use);
  }
  return uses;
}

/// ["F0",0,1]: a step's name, its begin and its end.
std::string steps_json(const Timed& timed, int chunks) {
  return view::list(timed, [&](const std::vector<TimedStep>& stage) {
    return view::list(stage, [&](const TimedStep& step) {
      return fmt::format(R"(["{}",{},{}])", to_string(step.step, chunks), step.begin, step.end);
    });
  });
}

/// The fields of a schedule that check_schedule accepts.
std::string timed_json(const Schedule& schedule, const PipelineShape& shape, const StepTimes& times,
                       const bench::Contest& contest = {}) {
  const std::vector<StepTimes> by_stage = bench::chunk_times({}, times, shape);
  const Timed timed = time_schedule(schedule, shape, by_stage);
  const week24::Bubble bubble = week24::measured_bubble(uses_of(timed));
  return fmt::format(
      R"("stages":{},"microbatches":{},"chunks":{},"makespan":{},"least":{},"of_total":{},"of_ideal":{},"of_span":{},"peak":{},"steps":{})",
      shape.stages, shape.microbatches, shape.chunks, bubble.makespan, bench::least_seconds(contest, times, shape),
      bubble.of_total, bubble.of_ideal, bubble.of_span,
      view::list(schedule, [](const StageSchedule& stage) { return fmt::format("{}", peak_in_flight(stage)); }),
      steps_json(timed, shape.chunks));
}

std::string named_json(const std::string& name, const Request& request, const StepTimes& times) {
  try {
    const int chunks = name == "interleaved" ? request.count("v", 8) : 0;
    const PipelineShape shape = week24::shape_of(name, request.count("p", 64), request.count("m", 512), chunks);
    return timed_json(week24::make_schedule(name, shape), shape, times);
  } catch (const Error& error) {
    return fmt::format(R"("error":{})", view::text(sentence(error)));
  }
}

}  // namespace

std::string pipeline(const Request& request) {
  const StepTimes times = times_of(request);
  return fmt::format(R"({{"schedules":{}}})", view::list(week24::named_schedules(), [&](const auto& named) {
                       return fmt::format(R"({{"name":"{}",{}}})", named.name, named_json(named.name, request, times));
                     }));
}

std::string schedule(const Request& request) {
  const ShapedSchedule own = parse_schedule(request.text("text"), "your schedule");
  bench::Contest contest;
  if (const int limit = request.whole("limit", 0, 1 << 20); limit > 0)
    contest.limits.assign(static_cast<std::size_t>(own.shape.stages), limit);
  const std::string refused = bench::refusal(contest, own.schedule, own.shape);
  if (!refused.empty()) return fmt::format(R"({{"error":{}}})", view::text(refused));
  return fmt::format("{{{}}}", timed_json(own.schedule, own.shape, times_of(request), contest));
}

}  // namespace lockstep::playground
