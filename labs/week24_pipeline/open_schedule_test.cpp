// Tests of exercise 24.7: the text is a schedule of its pipeline, within its memory, and faster than 1F1B in virtual
// time.
#include "labs/week24_pipeline/open_schedule.hpp"

#include <gtest/gtest.h>

#include "common/gpt/pipeline/bound.hpp"
#include "common/testing/answered.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24::open_schedule_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto open_schedule = testing::answer<week24::open_schedule>;

/// The answer's schedule; one that cannot be run ends the test with its mistake.
Schedule scheduled(const OpenPipeline& pipeline) {
  const auto refuse = [&](const std::string& wrong) { throw Error(Verdict::fail, pipeline.name + ": " + wrong); };
  ShapedSchedule read;
  try {
    read = parse_schedule(open_schedule(pipeline), "the text");
  } catch (const Error& error) {
    if (error.verdict() != Verdict::usage) throw;
    refuse(error.what());
  }
  const PipelineShape &has = read.shape, &wants = pipeline.shape;
  if (has.stages != wants.stages || has.microbatches != wants.microbatches || has.chunks != wants.chunks)
    refuse(fmt::format(
        "the text is a schedule of {} stage{}, {} microbatch{} and {} chunk{} per stage, expected {}, {} and {}",
        has.stages, has.stages == 1 ? "" : "s", has.microbatches, has.microbatches == 1 ? "" : "es", has.chunks,
        has.chunks == 1 ? "" : "s", wants.stages, wants.microbatches, wants.chunks));
  if (const std::string wrong = check_schedule(read.schedule, wants, pipeline.most_in_flight); !wrong.empty())
    refuse(wrong);
  return read.schedule;
}

Schedule one_f_one_b_of(const OpenPipeline& pipeline) {
  return limited_one_f_one_b(pipeline.shape, std::vector<int>(pipeline.stages.size(), pipeline.most_in_flight));
}

/// The seconds that no schedule is shorter than.
double least_seconds(const OpenPipeline& pipeline) {
  std::vector<std::vector<StepTimes>> by_chunk;
  for (const StepTimes& stage : pipeline.stages) by_chunk.push_back({stage});
  return shortest_makespan(pipeline.shape, by_chunk, std::vector<int>(pipeline.stages.size(), pipeline.most_in_flight));
}

double seconds_of(const OpenPipeline& pipeline, const Schedule& schedule) {
  double last = 0;
  TimedOptions how;
  how.by_stage = pipeline.stages;
  for (const StageUse& stage : run_timed(schedule, pipeline.shape, pipeline.stages.front(), how).stages)
    last = std::max(last, stage.end);
  return last;
}

TEST(Lab24_7, SchedulesCanBeRunWithinTheirMemory) {
  for (const OpenPipeline& pipeline : open_pipelines()) scheduled(pipeline);
}

TEST(Lab24_7, IsFasterThan1F1B) {
  double logarithms = 0;
  for (const OpenPipeline& pipeline : open_pipelines()) {
    const Schedule schedule = scheduled(pipeline);
    if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
    const double mine = seconds_of(pipeline, schedule), theirs = seconds_of(pipeline, one_f_one_b_of(pipeline));
    const std::string times =
        fmt::format("{}, 1F1B {}, lower bound {}", ms(mine), ms(theirs), ms(least_seconds(pipeline)));
    ASSERT_GE(mine, least_seconds(pipeline) - 1e-9) << pipeline.name << ": " << times << ": the bound is wrong";
    ASSERT_LE(mine, 0.9 * theirs) << pipeline.name << ": " << times
                                  << ". At most 90% of 1F1B's time counts: which steps does the stage before wait for, "
                                     "and what could a stage do while it waits?";
    testing::note_score(pipeline.name, theirs / mine, times);
    logarithms += std::log(theirs / mine);
  }
  testing::note_score("all three", std::exp(logarithms / static_cast<double>(open_pipelines().size())),
                      "geometric mean");
}

}  // namespace
}  // namespace lockstep::week24::open_schedule_test
