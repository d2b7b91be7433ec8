#include "tools/calculators/contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/error.hpp"
#include "common/gpt/pipeline/bound.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"
#include "labs/week24_pipeline/open_schedule.hpp"

namespace lockstep::bench {

namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw Error(Verdict::usage, sentence); }

/// 24.7's pipelines, and two more whose limits differ: less memory on later stages than 1F1B would have.
std::vector<Contest> contests() {
  std::vector<Contest> all;
  for (const week24::OpenPipeline& open : week24::open_pipelines())
    all.push_back({open.name, open.shape, open.stages, std::vector<int>(open.stages.size(), open.most_in_flight)});
  const auto add = [&](const char* name, int microbatches, const std::vector<double>& works, double hop,
                       const std::vector<int>& limits) {
    std::vector<StepTimes> stages;
    for (const double work : works) stages.push_back({work * 1e-3, 1.1 * work * 1e-3, 0.8 * work * 1e-3, hop * 1e-3});
    all.push_back({name, {static_cast<int>(works.size()), microbatches, 1}, stages, limits});
  };
  add("limits that differ", 12, {1, 1.2, 1, 1.1}, 0.05, {3, 3, 2, 2});
  add("eight unequal stages, little memory", 16, {1.1, 1, 0.9, 1.2, 1, 1, 0.9, 1.3}, 0.1, {5, 5, 4, 4, 4, 3, 3, 2});
  return all;
}
Contest contest_numbered(const std::string& number) {
  const std::vector<Contest> all = contests();
  return all[static_cast<std::size_t>(count_in("--contest", number, static_cast<int>(all.size()))) - 1];
}

std::string shape_words(const PipelineShape& shape) {
  return counted(shape.stages, "stage") + " and " + counted(shape.microbatches, "microbatch");
}

/// A limit is of whole stages' activations: of v chunks a stage may hold v times as many.
std::vector<int> chunk_limits(const Contest& contest, const PipelineShape& shape) {
  std::vector<int> limits = contest.limits;
  for (int& limit : limits)  // a file may say any number of chunks
    limit =
        static_cast<int>(std::min<std::int64_t>(std::int64_t{limit} * shape.chunks, std::numeric_limits<int>::max()));
  return limits;
}

}  // namespace

PipelineShape asked_shape(const ContestOptions& options) {
  if (!options.pipeline.empty()) return contest_numbered(options.pipeline).shape;
  const std::size_t limits = options.limits.size() > 1 ? options.limits.size() : 0;
  return {static_cast<int>(std::max(options.work.size(), limits)), 0};
}

Contest contest_of(const ContestOptions& options, int stages, const StepTimes& times) {
  if (!options.pipeline.empty()) return contest_numbered(options.pipeline);
  Contest contest;
  const auto fits = [&](const char* option, std::size_t count) {
    if (count != static_cast<std::size_t>(stages))
      refuse(fmt::format("{} lists {} stages, but the pipeline has {}", option, count, stages));
  };
  if (!options.work.empty()) fits("--stage-work", options.work.size());
  if (options.limits.size() > 1) fits("--in-flight", options.limits.size());
  for (const std::string& text : options.work) {
    const double work = number_in("--stage-work", text, 0.001, 1000);
    contest.times.push_back(
        {times.forward * work, times.input_gradient * work, times.weight_gradient * work, times.transfer});
  }
  contest.limits = counts_in("--in-flight", options.limits, 1 << 20);
  if (contest.limits.size() == 1) contest.limits.assign(static_cast<std::size_t>(stages), contest.limits.front());
  return contest;
}

std::string refusal(const Contest& contest, const Schedule& schedule, const PipelineShape& shape) {
  const PipelineShape& wants = contest.shape;
  if (!contest.name.empty() && (shape.stages != wants.stages || shape.microbatches != wants.microbatches))
    return fmt::format("a schedule of {}, expected {}", shape_words(shape), shape_words(wants));
  for (const std::size_t count : {contest.times.size(), contest.limits.size()})
    if (count > 0 && count != static_cast<std::size_t>(shape.stages))
      return fmt::format("a schedule of {} stages, expected {}", shape.stages, count);
  return check_schedule(schedule, shape, chunk_limits(contest, shape));
}

Schedule baseline(const Contest& contest, const PipelineShape& shape) {
  std::vector<int> limits = contest.limits;
  if (limits.empty()) limits.assign(static_cast<std::size_t>(shape.stages), shape.stages);
  return week24::limited_one_f_one_b(shape, limits);
}

std::vector<StepTimes> chunk_times(const Contest& contest, const StepTimes& times, const PipelineShape& shape) {
  std::vector<StepTimes> all = contest.times;
  if (all.empty()) all.assign(static_cast<std::size_t>(shape.stages), times);
  for (StepTimes& stage : all)
    for (double* part : {&stage.forward, &stage.input_gradient, &stage.weight_gradient}) *part /= shape.chunks;
  return all;
}

double least_seconds(const Contest& contest, const StepTimes& times, const PipelineShape& shape) {
  std::vector<std::vector<StepTimes>> by_chunk;
  for (const StepTimes& stage : chunk_times(contest, times, shape))
    by_chunk.emplace_back(static_cast<std::size_t>(shape.chunks), stage);
  return shortest_makespan(shape, by_chunk, chunk_limits(contest, shape));
}

std::string ranking(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.refused.empty() != b.refused.empty() ? a.refused.empty() : a.seconds < b.seconds - 1e-12;
  });
  std::size_t wide = 8;
  for (const Entry& entry : entries) wide = std::max(wide, entry.name.size());
  std::string text = fmt::format("{:>5}  {:<{}} {:>10} {:>12} {:>10}  {:>9}\n", "place", "schedule", wide, "makespan",
                                 "lower bound", "over it", "in flight");
  int place = 0, shown = 0;
  double last = -1;
  for (const Entry& entry : entries) {
    if (!entry.refused.empty()) {
      text += fmt::format("{:>5}  {:<{}} refused: {}\n", "–", entry.name, wide, entry.refused);
      continue;
    }
    ++place;
    if (entry.seconds > last + 1e-12) shown = place;  // equal times share a place
    last = entry.seconds;
    const double over = std::round(1000 * (entry.seconds / entry.least - 1)) / 10 + 0.0;  // + 0.0: never "−0.0"
    text += fmt::format("{:>5}  {:<{}} {:>10} {:>12} {:>9.1f}%  {:>9}\n", shown, entry.name, wide,
                        format_seconds(entry.seconds), format_seconds(entry.least), over, entry.in_flight);
  }
  return text;
}

}  // namespace lockstep::bench
