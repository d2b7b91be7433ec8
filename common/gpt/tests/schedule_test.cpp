// Tests the messages about impossible schedules, including their plurals, and the times of possible ones.
#include "common/gpt/pipeline/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/gpt/pipeline/bound.hpp"
#include "common/support/tests/refusal_testing.hpp"

namespace lockstep {
namespace {

TEST(Schedule, AStepOutsideOfTheShapeIsNamed) {
  const auto wrong = [](int microbatches) {
    return check_schedule({parse_stage("F0 B0 F7 B7")}, {.stages = 1, .microbatches = microbatches});
  };
  EXPECT_NE(wrong(1).find("outside of 1 microbatch and 1 chunk"), std::string::npos) << wrong(1);
  EXPECT_NE(wrong(4).find("outside of 4 microbatches and 1 chunk"), std::string::npos) << wrong(4);
}

TEST(Schedule, TooFewStepsAreCounted) {
  const std::string says = refusal([] { parse_schedule("F0 F1 B0\n", "mine.txt"); });
  EXPECT_NE(says.find("stage 0 has 3 steps; 2 microbatches and 1 chunk need at least 4"), std::string::npos) << says;
}

TEST(Schedule, ALinkCarriesOneMessageAfterTheOther) {
  const Schedule gpipe{parse_stage("F0 F1 F2 B0 B1 B2"), parse_stage("F0 F1 F2 B0 B1 B2")};
  const PipelineShape shape{.stages = 2, .microbatches = 3};
  const auto begins = [&](double occupied) {
    const auto timed = time_schedule(gpipe, shape, StepTimes{1, 1, 0, /*transfer=*/4, occupied});
    return std::vector<double>{timed[1][0].begin, timed[1][1].begin, timed[1][2].begin, timed[0][5].begin};
  };
  EXPECT_EQ(begins(0), (std::vector<double>{5, 6, 7, 15})) << "beside each other: the last gradient leaves at 11";
  EXPECT_EQ(begins(3), (std::vector<double>{5, 8, 11, 23})) << "3 s apart; gradients leave at 13, 16 and 19";
}

TEST(Schedule, ChunksMayDiffer) {
  const Schedule one{parse_stage("F0.0 F0.1 B0.1 B0.0")};
  const std::vector<std::vector<StepTimes>> times{{StepTimes{1, 2, 0}, StepTimes{10, 20, 0}}};
  const auto timed = time_schedule(one, {.stages = 1, .microbatches = 1, .chunks = 2}, times);
  EXPECT_EQ(timed[0][1].end, 11);
  EXPECT_EQ(timed[0][2].end, 31);
  EXPECT_EQ(timed[0][3].end, 33);
}

TEST(Schedule, AVComesBackUp) {
  const PipelineShape vee{.stages = 3, .microbatches = 1, .chunks = 2, .placement = Placement::vee},
      around{.stages = 3, .microbatches = 1, .chunks = 2};
  std::vector<int> down_and_up, down_twice;
  for (int part = 0; part < 6; ++part) {
    for (const PipelineShape& shape : {vee, around}) {
      const ChunkOfStage here = chunk_of_part(shape, part);
      EXPECT_EQ(part_of(shape, here.stage, here.chunk), part);
      (shape == vee ? down_and_up : down_twice).push_back(here.stage);
    }
  }
  EXPECT_EQ(down_and_up, (std::vector<int>{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(down_twice, (std::vector<int>{0, 1, 2, 0, 1, 2}));
}

TEST(Schedule, AVIsReadCheckedAndTimed) {
  const std::string lines = "F0.0 F0.1 B0.1 B0.0\nF0.0 F0.1 B0.1 B0.0\n";
  const ShapedSchedule read = parse_schedule("# mine\nplacement v\n" + lines, "mine.txt");
  ASSERT_EQ(read.shape, (PipelineShape{2, 1, 2, Placement::vee}));
  EXPECT_EQ(check_schedule(read.schedule, read.shape), "");
  // Down: 1 + hop. Up: no hop on stage 1, a hop to stage 0, which has the loss. The backward takes the same route.
  const auto timed = time_schedule(read.schedule, read.shape, StepTimes{1, 1, 1, /*transfer=*/0.5});
  EXPECT_EQ(timed[1][0].begin, 1.5);
  EXPECT_EQ(timed[1][1].begin, 2.5) << "the stage hands to itself";
  EXPECT_EQ(timed[0][1].begin, 4);
  EXPECT_EQ(timed[1][2].begin, 7.5);
  EXPECT_EQ(timed[1][3].begin, 9.5) << "and back";
  EXPECT_EQ(timed[0][3].begin, 12);
  for (const auto& [text, says] :
       {std::pair{lines + "placement v\n", "line 3: "},
        {"placement w\n" + lines, "line 1: "},
        {std::string("placement v\nF0 B0\nF0 B0\n"), "a V has 2 chunks per stage, and these steps are of 1"}}) {
    const std::string said = refusal([&, &file = text] { parse_schedule(file, "mine.txt"); });
    EXPECT_NE(said.find(says), std::string::npos) << text << said;
  }
}

TEST(Schedule, AVThatCannotBeIsNamed) {
  const PipelineShape shape{.stages = 2, .microbatches = 2, .chunks = 2, .placement = Placement::vee};
  const auto wrong = [&](const char* first, const char* second) {
    return check_schedule({parse_stage(first), parse_stage(second)}, shape);
  };
  const char* first = "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0";
  EXPECT_EQ(wrong(first, "F0.0 F0.1 F1.0 F1.1 B0.1 B0.0 B1.1 B1.0"), "");
  EXPECT_EQ(wrong(first, "F0.1 F0.0 F1.0 F1.1 B0.1 B0.0 B1.1 B1.0"),
            "stage 0 waits before F0.1 for F0.1 of stage 1, which waits before F0.1: a cycle");
  EXPECT_EQ(wrong(first, "F0.0 F1.0 F1.1 F0.1 B0.1 B0.0 B1.1 B1.0"),
            "message 0 from stage 1 to stage 0 is of F1.1 where it is sent and of F0.1 where it is received");
}

/// Returns all orders of a stage's F, I and W in which each kind visits the microbatches in order.
std::vector<StageSchedule> orders(int microbatches) {
  std::vector<StageSchedule> all;
  const auto grow = [&](const auto& self, StageSchedule& steps, int f, int i, int w) -> void {
    if (w == microbatches) return all.push_back(steps);
    const auto with = [&](Work work, int number, int df, int di, int dw) {
      steps.push_back({work, number});
      self(self, steps, f + df, i + di, w + dw);
      steps.pop_back();
    };
    if (f < microbatches) with(Work::forward, f, 1, 0, 0);
    if (i < f) with(Work::input_gradient, i, 0, 1, 0);
    if (w < i) with(Work::weight_gradient, w, 0, 0, 1);
  };
  StageSchedule steps;
  grow(grow, steps, 0, 0, 0);
  return all;
}

/// Returns the shortest makespan of all schedules made of such orders.
double best_by_trying(const PipelineShape& shape, const std::vector<StepTimes>& stages,
                      const std::vector<int>& limits) {
  const std::vector<StageSchedule> all = orders(shape.microbatches);
  double best = std::numeric_limits<double>::infinity();
  Schedule schedule(static_cast<std::size_t>(shape.stages));
  const auto choose = [&](const auto& self, std::size_t s) -> void {
    if (s < schedule.size()) {
      for (const StageSchedule& steps : all)
        if (limits.empty() || peak_in_flight(steps) <= limits[s]) schedule[s] = steps, self(self, s + 1);
      return;
    }
    if (!check_schedule(schedule, shape, limits).empty()) return;
    double last = 0;
    for (const auto& stage : time_schedule(schedule, shape, stages)) last = std::max(last, stage.back().end);
    best = std::min(best, last);
  };
  choose(choose, 0);
  return best;
}

TEST(ScheduleBound, NoScheduleIsShorterAndSomeAreAsShort) {
  std::mt19937 random(7);
  const auto time = [&] { return 1 + static_cast<double>(random() % 16) / 16; };
  int tight = 0, tried = 0;
  for (const PipelineShape& shape : {PipelineShape{1, 3}, {2, 1}, {2, 2}, {2, 3}, {3, 2}})
    for (int n = 0; n < 12; ++n) {
      std::vector<StepTimes> stages;
      std::vector<int> limits;
      const double hop = n % 3 == 0 ? 0 : 0.25 * static_cast<double>(random() % 8);
      for (int s = 0; s < shape.stages; ++s) {
        stages.push_back({time(), time(), time(), hop});
        limits.push_back(1 + static_cast<int>(random() % 3));
      }
      if (n % 2 == 0) limits.clear();
      std::vector<std::vector<StepTimes>> by_chunk;
      for (const StepTimes& stage : stages) by_chunk.push_back({stage});
      const double bound = shortest_makespan(shape, by_chunk, limits), best = best_by_trying(shape, stages, limits);
      ASSERT_LE(bound, best + 1e-9) << shape.stages << " stages, " << shape.microbatches << " microbatches, case " << n;
      ASSERT_GT(bound, 0.6 * best) << shape.stages << " stages, " << shape.microbatches << " microbatches, case " << n;
      tight += bound > best - 1e-9;
      ++tried;
    }
  EXPECT_GT(2 * tight, tried) << "of small pipelines the bound is the optimum more often than not";
}

TEST(ScheduleBound, AVHasNoHopAtItsBottom) {
  const PipelineShape shape{2, 1, 2, Placement::vee};
  const std::vector<std::vector<StepTimes>> by_chunk(2, std::vector<StepTimes>(2, StepTimes{1, 1, 1, 0.5}));
  EXPECT_NEAR(shortest_makespan(shape, by_chunk), 4 + 2 * 0.5 + 4 + 2 * 0.5 + 1, 1e-12) << "four F, four I and a W";
  EXPECT_NEAR(shortest_makespan({2, 1, 2}, by_chunk), 4 + 3 * 0.5 + 4 + 3 * 0.5 + 1, 1e-12);
}

}  // namespace
}  // namespace lockstep
