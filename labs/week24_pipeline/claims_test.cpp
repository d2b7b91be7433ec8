// Measures what the course texts say about pipelines: docs/learn/claims.md has the verdicts. Prints a line for each.
//
//   ./lab test --all -R suite.claims.week24 -V
#include <gtest/gtest.h>

#include <set>

#include "labs/week24_pipeline/gpipe.hpp"
#include "labs/week24_pipeline/one_f_one_b.hpp"
#include "labs/week24_pipeline/schedules_testing.hpp"

namespace lockstep::week24 {
namespace {

template <class... Args>
void say(const char* format, Args... args) {
  fmt::print("  measured: {}\n", fmt::format(fmt::runtime(format), args...));
}

constexpr StepTimes kTurn = {1e-3, 1e-3, 1e-3, 0};  // forward and backward of a stage: 3 ms

Bubble run_bubble(MakeStage make, const PipelineShape& shape, const StepTimes& times = kTurn) {
  return measured_bubble(run_timed(all_stages(make, shape), shape, times).stages);
}

TEST(ClaimsWeek24, TwoStages50And80And89Percent) {
  for (const auto& [m, percent] : {std::pair{1, 50.0}, {4, 80.0}, {8, 800.0 / 9}}) {
    const double used = 100 * (1 - run_bubble(gpipe, {2, m}).of_total);
    say("p = 2, m = {}: {:.2f}% used", m, used);
    EXPECT_NEAR(used, percent, 1e-6);
  }
}

/// The same model and the same eight microbatches, on one GPU and in two stages.
TEST(ClaimsWeek24, ABubbleOf20PercentIsNoLossAgainstOneGpu) {
  const double alone = run_bubble(gpipe, {1, 4}, {2e-3, 2e-3, 2e-3, 0}).makespan;
  const double two = run_bubble(gpipe, {2, 4}).makespan;
  say("m = 4: one GPU {:.0f} ms, two stages {:.0f} ms: {:.2f} times as fast; {:.0f}% less than two ideal GPUs",
      alone * 1e3, two * 1e3, alone / two, 100 * (1 - alone / two / 2));
  EXPECT_NEAR(alone / two, 1.6, 1e-9);
}

TEST(ClaimsWeek24, FourStagesAnd32Microbatches) {
  const Bubble bubble = run_bubble(gpipe, {4, 32});
  say("p = 4, m = 32: idle {:.2f}% of the whole, {:.2f}% of the ideal", 100 * bubble.of_total, 100 * bubble.of_ideal);
  EXPECT_NEAR(bubble.of_total, 3.0 / 35, 1e-9);
  EXPECT_NEAR(bubble.of_ideal, 3.0 / 32, 1e-9);
}

// The two pictures of the text, slot by slot ----------------------------------------------------------------------

/// A stage's line of a picture: its first slot and its words, "." for a slot without work. The text counts from 1.
struct Drawn {
  Schedule schedule;
  std::vector<std::vector<int>> slots;  // by stage, of each step
  int length = 0, busy = 0;
};
Drawn read_picture(const std::vector<std::string>& lines) {
  Drawn drawn;
  for (const std::string& line : lines) {
    std::istringstream words(line);
    std::string steps;
    std::vector<int> slots;
    int slot = 0;
    for (std::string word; words >> word; ++slot) {
      if (word == ".") continue;
      steps += fmt::format("{}{} ", word[0], std::stoi(word.substr(1)) - 1);
      slots.push_back(slot);
    }
    drawn.schedule.push_back(parse_stage(steps));
    drawn.slots.push_back(slots);
    drawn.length = std::max(drawn.length, slot);
    drawn.busy += static_cast<int>(slots.size());
  }
  return drawn;
}

/// Steps that stand in a slot in which they cannot be yet, whatever the stages do: the schedule's order as early as it
/// can be run, each step a slot.
std::vector<std::string> too_early(const Drawn& drawn, const PipelineShape& shape) {
  const auto earliest = time_schedule(drawn.schedule, shape, {1, 0.5, 0.5, 0});
  std::vector<std::string> found;
  for (std::size_t s = 0; s < earliest.size(); ++s)
    for (std::size_t i = 0; i < earliest[s].size(); ++i)
      if (drawn.slots[s][i] + 1e-9 < earliest[s][i].begin)
        found.push_back(fmt::format("{} of stage {} stands in slot {}, earliest {:g}", to_string(earliest[s][i].step),
                                    s, drawn.slots[s][i], earliest[s][i].begin));
  return found;
}

TEST(ClaimsWeek24, ThePictureOfFourStagesAndFourMicrobatches) {
  const PipelineShape shape{4, 4};
  Drawn picture = read_picture({"F1 F2 F3 F4 . . . . B4 B3 B2 B1", ". F1 F2 F3 F4 . . B4 B3 B2 B1",
                                ". . F1 F2 F3 F4 B4 B3 B2 B1", ". . . F1 F2 F3 F4 B3 B2 B1"});
  const std::string wrong = check_schedule(picture.schedule, shape);
  say("the picture: {} of {} slots busy, {:.0f}%; the checker: \"{}\"", picture.busy, 4 * picture.length,
      100.0 * picture.busy / (4 * picture.length), wrong);
  EXPECT_EQ(picture.busy, 31);
  EXPECT_EQ(picture.length, 12);
  EXPECT_EQ(wrong, "stage 3 lacks B3");

  // With the step that is missing, in the slot where it belongs, the last stage's backwards come a slot later.
  picture = read_picture({"F1 F2 F3 F4 . . . . B4 B3 B2 B1", ". F1 F2 F3 F4 . . B4 B3 B2 B1",
                          ". . F1 F2 F3 F4 B4 B3 B2 B1", ". . . F1 F2 F3 F4 B4 B3 B2 B1"});
  EXPECT_EQ(check_schedule(picture.schedule, shape), "");
  EXPECT_EQ(picture.schedule, all_stages(gpipe, shape)) << "the text's naive pipeline is GPipe";
  const std::vector<std::string> early = too_early(picture, shape);
  ASSERT_FALSE(early.empty());
  const Bubble bubble = run_bubble(gpipe, shape, {1e-3, 0.5e-3, 0.5e-3, 0});  // a backward as long as a forward
  say("with B4: {} of its 16 backward steps are too early ({}); run, it takes {:.0f} slots, {:.1f}% used", early.size(),
      early.back(), bubble.makespan * 1e3, 100 * (1 - bubble.of_total));
  EXPECT_EQ(early.size(), 12u) << "all backward steps but the last stage's";
  EXPECT_NEAR(bubble.makespan, 14e-3, 1e-9);
  EXPECT_NEAR(1 - bubble.of_total, 4.0 / 7, 1e-9);
}

/// The picture that the texts draw before GPipe, as the problem that GPipe solves, is GPipe with four microbatches.
TEST(ClaimsWeek24, TheNaivePictureIsGPipe) {
  const Drawn picture =
      read_picture({"F1 F2 F3 F4 . . . . B4 B3 B2 B1", ". F1 F2 F3 F4 . . B4 B3 B2 B1", ". . F1 F2 F3 F4 B4 B3 B2 B1"});
  EXPECT_EQ(picture.schedule, all_stages(gpipe, {3, 4}));
  for (int p : {3, 4}) {
    const double without = 1 - run_bubble(naive, {p, 1}).of_total, with = 1 - run_bubble(gpipe, {p, 4}).of_total;
    say("p = {}: without microbatches {:.0f}% used, with four {:.0f}%", p, 100 * without, 100 * with);
    EXPECT_NEAR(without, 1.0 / p, 1e-9);
    EXPECT_NEAR(with, 4.0 / (p + 3), 1e-9);
  }
}

TEST(ClaimsWeek24, ThePictureOf1F1B) {
  const PipelineShape shape{4, 8};
  // The text's lines, with their dots spelt out: what follows is 1F1B, and so are the orders.
  Drawn picture = read_picture(
      {"F1 F2 F3 F4 B1 F5 B2 F6 B3 F7 B4 F8 B5 B6 B7 B8", ". F1 F2 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 F8 B6 B7 B8",
       ". . F1 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 F8 B7 B8", ". . . F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 F8 B8"});
  EXPECT_EQ(check_schedule(picture.schedule, shape), "") << "as an order the picture is right";
  EXPECT_EQ(picture.schedule, all_stages(one_f_one_b, shape));
  const std::vector<std::string> early = too_early(picture, shape);
  ASSERT_FALSE(early.empty());
  std::set<int> slots;
  for (int s = 0; s < 4; ++s) slots.insert(picture.slots[static_cast<std::size_t>(s)][static_cast<std::size_t>(4 - s)]);
  say("the order is 1F1B's, the slots are impossible: {} steps are too early, the first: {}", early.size(), early[0]);
  EXPECT_EQ(slots, std::set<int>{4}) << "the first backward stands in one slot on all four stages";
  EXPECT_EQ(early[0], "B0 of stage 0 stands in slot 4, earliest 7");
}

/// In flight, and the time, of GPipe and 1F1B; then with a hop that takes a tenth of a forward.
TEST(ClaimsWeek24, OneFOneBSavesMemoryAndNotTime) {
  for (int m : {8, 32, 128}) {
    const PipelineShape shape{4, m};
    const int all = peak_in_flight(gpipe(shape, 0)), few = peak_in_flight(one_f_one_b(shape, 0));
    const double gpipe_seconds = run_bubble(gpipe, shape).makespan, seconds = run_bubble(one_f_one_b, shape).makespan;
    say("p = 4, m = {}: GPipe holds {} microbatches, 1F1B {}; {:.0f} and {:.0f} ms", m, all, few, gpipe_seconds * 1e3,
        seconds * 1e3);
    EXPECT_EQ(all, m);
    EXPECT_EQ(few, 4);
    EXPECT_NEAR(gpipe_seconds, seconds, 1e-9);
  }
  const StepTimes hop = {1e-3, 1e-3, 1e-3, 0.1e-3};
  const double gpipe_bubble = run_bubble(gpipe, {4, 32}, hop).of_total,
               bubble = run_bubble(one_f_one_b, {4, 32}, hop).of_total;
  say("p = 4, m = 32, a hop a tenth of a forward: idle {:.2f}% with GPipe, {:.2f}% with 1F1B", 100 * gpipe_bubble,
      100 * bubble);
  EXPECT_GT(bubble, gpipe_bubble) << "1F1B waits for two hops each time a microbatch turns round";
}

}  // namespace
}  // namespace lockstep::week24
