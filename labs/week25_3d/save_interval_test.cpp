// Tests of exercise 25.5: formulas against a scan for the least waste, a run by hand, runs that are added up another
// way, and a thousand days against the formula.
#include "labs/week25_3d/save_interval.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/testing/answered.hpp"
#include "common/testing/expect_near.hpp"
#include "labs/week25_3d/save_interval_testing.hpp"

namespace lockstep::week25::save_interval_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto expected_waste = testing::answer<week25::expected_waste>;
constexpr auto best_intervals = testing::answer<week25::best_intervals>;
constexpr auto advance = testing::answer<week25::advance>;
constexpr auto fail = testing::answer<week25::fail>;
constexpr auto steps_between_saves = testing::answer<week25::steps_between_saves>;

using testing::expect_seconds, testing::ExpectNear;

std::string words(const SavingCosts& c) {
  return fmt::format("a save of {:g} s, a restart of {:g} s, a failure every {:g} s", c.save, c.restart, c.mtbf);
}

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab25_5a, WasteByHand) {
  // M = 1/ln 2, so that e^(t/M) = 2^t.
  const double m = 1 / std::log(2.0);
  ExpectNear(expected_waste({.save = 1, .restart = 0, .mtbf = m}, 2), 1 - 2 / (m * 7))
      << "the waste: 2 s of work and 1 s of save take (2³ − 1)·M";
  ExpectNear(expected_waste({.save = 1, .restart = 1, .mtbf = m}, 2), 1 - 1 / (m * 7))
      << "the waste: R = M·ln 2 doubles the time";
  ExpectNear(expected_waste({.save = 10, .restart = 600, .mtbf = 1e15}, 90), 0.1)
      << "the waste: almost no failures: 10 s of each 100 s are the save";
  ExpectNear(expected_waste({.save = 1, .restart = 1e6, .mtbf = 1}, 1), 1) << "the waste: it never completes a restart";
}

TEST(Lab25_5a, WasteToTwelvePlaces) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    const double small = std::pow(10.0, -2 - 6 * draw(1, i));
    const SavingCosts costs{.save = small * draw(2, i), .restart = small * draw(3, i), .mtbf = 1};
    ASSERT_NEAR(expected_waste(costs, small), waste_of(costs, small), 1e-12)
        << "to within 1e-12, with " << words(costs) << ", saving every " << small << " s";
  }
}

TEST(Lab25_5a, IntervalsByHand) {
  const Intervals four = best_intervals({.save = 2, .restart = 0, .mtbf = 4});
  expect_seconds(four.young, 4) << "Young's: √(2·2·4)";
  expect_seconds(four.daly, 4 * (1 + 1.0 / 6 + 1.0 / 36) - 2) << "Daly's: x = ½: 4·(1 + 1/6 + 1/36) − 2";
  expect_seconds(best_intervals({.save = 2, .restart = 77, .mtbf = 4}).daly, four.daly)
      << "Daly's: the restart does not say how often to save";
  const Intervals slow = best_intervals({.save = 8, .restart = 0, .mtbf = 4});
  expect_seconds(slow.young, 8) << "Young's: √(2·8·4)";
  expect_seconds(slow.daly, 4) << "a save of 2M or longer: Daly's is M";
  EXPECT_LT(best_intervals({.save = 7.99, .restart = 0, .mtbf = 4}).daly, 3.6) << "a save below 2M: still the formula";
}

TEST(Lab25_5a, YoungIsBestWhereSavesAreShort) {
  for (std::uint64_t i = 0; i < 40; ++i) {
    const SavingCosts costs{.save = std::pow(10.0, -6 + 3 * draw(4, i)), .restart = draw(5, i), .mtbf = 1};
    const double best = best_by_scan(costs), x = std::sqrt(costs.save / 2), young = best_intervals(costs).young;
    ASSERT_NEAR(young / best, 1, x) << "Young's is the best interval but for √(δ/2M) of it, with " << words(costs);
    ASSERT_GT(young / best, 1 + x / 2) << "Young's is longer than the best, by 2/3·√(δ/2M) of it, with "
                                       << words(costs);
    ASSERT_LE(expected_waste(costs, young), waste_of(costs, best) * 1.001)
        << "with Young's interval the waste is within a thousandth of the least, with " << words(costs);
  }
}

TEST(Lab25_5a, DalyIsBetterWhereSavesAreLong) {
  for (std::uint64_t i = 0; i < 40; ++i) {
    const SavingCosts costs{.save = std::pow(10.0, -3 + 3.2 * draw(6, i)), .restart = draw(7, i), .mtbf = 1};
    const double best = best_by_scan(costs);
    const Intervals found = best_intervals(costs);
    ASSERT_LT(std::abs(found.daly - best), std::abs(found.young - best) / 20)
        << "Daly's is at least twenty times as close to the best interval as Young's, with " << words(costs);
    ASSERT_LE(expected_waste(costs, found.daly), waste_of(costs, best) * 1.0001)
        << "with Daly's interval the waste is within a ten-thousandth of the least, with " << words(costs);
  }
}

// Part b --------------------------------------------------------------------------------------------------------------

constexpr SavingCosts kByHand{.save = 10, .restart = 20, .mtbf = 1000};

void expect_spent(const TimeSpent& is, const TimeSpent& wanted, const std::string& where) {
  expect_seconds(is.work, wanted.work) << where << ": lasting work";
  expect_seconds(is.saves, wanted.saves) << where << ": saves";
  expect_seconds(is.lost, wanted.lost) << where << ": lost work";
  expect_seconds(is.restarts, wanted.restarts) << where << ": restarts";
  EXPECT_EQ(is.failures, wanted.failures) << where << ": failures";
}

/// simulate(), which calls the answer; in a grade, from the process that ran it.
template <class Gap>
TimeSpent simulated(const SavingCosts& costs, double interval, double seconds, const Gap& gap) {
  const std::string which = fmt::format("a run of {} s that saves each {} s", seconds, interval);
  return testing::answered(which, [&] { return simulate(costs, interval, seconds, gap); });
}

/// A run of `seconds` that works 100 s, saves 10 s and restarts in 20 s.
void expect_run(const std::vector<double>& gaps, double seconds, const TimeSpent& wanted, const std::string& where) {
  expect_spent(simulated(kByHand, 100, seconds, in_turn(gaps)), wanted, where);
}

TEST(Lab25_5b, OneStepAtATime) {
  RunState run{.left = 100};
  expect_seconds(advance(run, kByHand, 100, 60), 60) << "60 s of 100 are available";
  EXPECT_EQ(run.doing, Doing::work) << "60 of 100 s: still at work";
  expect_seconds(run.unsaved, 60) << "60 s of work that is in no checkpoint";
  expect_seconds(advance(run, kByHand, 100, 60), 40) << "the work has 40 s left";
  EXPECT_EQ(run.doing, Doing::save) << "work is followed by a save";
  expect_seconds(run.spent.work, 0) << "work lasts from its checkpoint on, not before";
  expect_seconds(run.left, 10) << "a save takes 10 s";
  expect_seconds(advance(run, kByHand, 100, 60), 10) << "the save takes 10 of 60 s";
  EXPECT_EQ(run.doing, Doing::work) << "a save is followed by work";
  expect_seconds(run.left, 100) << "work takes the interval";
  expect_seconds(run.spent.work, 100) << "the save has made 100 s of work lasting";
  expect_seconds(run.unsaved, 0) << "nothing is unsaved after a save";
  fail(run, kByHand);
  EXPECT_EQ(run.doing, Doing::restart) << "a failure is followed by a restart";
  expect_seconds(advance(run, kByHand, 100, 60), 20) << "the restart takes 20 of 60 s";
  EXPECT_EQ(run.doing, Doing::work) << "a restart is followed by work";
  expect_seconds(run.left, 100) << "after a restart the interval begins again";
  expect_seconds(run.spent.restarts, 20) << "20 s of restarts";
}

TEST(Lab25_5b, NoFailures) {
  expect_run({}, 330, {.work = 300, .saves = 30}, "three turns of 100 + 10 s");
  expect_run({}, 325, {.work = 300, .saves = 25}, "the last save has 5 of its 10 s");
  expect_run({}, 70, {.work = 70}, "70 s, too few for a save");
}

TEST(Lab25_5b, FailureDuringWork) {
  expect_run({150}, 280, {.work = 200, .saves = 20, .lost = 40, .restarts = 20, .failures = 1},
             "a failure after 40 s of unsaved work");
  expect_run({100}, 230, {.work = 100, .saves = 10, .lost = 100, .restarts = 20, .failures = 1},
             "a failure at the very end of the work, before its save");
}

TEST(Lab25_5b, FailureDuringASave) {
  expect_run({105}, 235, {.work = 100, .saves = 15, .lost = 100, .restarts = 20, .failures = 1},
             "a failure after half of a save: its 100 s of work are lost");
  expect_run({110}, 240, {.work = 200, .saves = 20, .restarts = 20, .failures = 1},
             "a failure at the very end of a save: the work is saved");
  expect_run({215}, 345, {.work = 200, .saves = 25, .lost = 100, .restarts = 20, .failures = 1},
             "a failure in the second save: the first checkpoint stays");
}

TEST(Lab25_5b, FailureDuringARestart) {
  expect_run({150, 5}, 285, {.work = 200, .saves = 20, .lost = 40, .restarts = 25, .failures = 2},
             "a failure after 5 s of a restart, which begins again: nothing more is lost");
  expect_run({150, 20}, 300, {.work = 200, .saves = 20, .lost = 40, .restarts = 40, .failures = 2},
             "a failure at the very end of a restart");
  expect_run({150, 5}, 165, {.work = 100, .saves = 10, .lost = 40, .restarts = 15, .failures = 2},
             "the run ends in its second restart");
}

TEST(Lab25_5b, DrawnRuns) {
  for (std::uint64_t i = 0; i < 60; ++i) {
    // Whole seconds, of which doubles add up exactly: moments at which two things happen at once are among them.
    const SavingCosts costs{.save = draw_whole(10, i, 1, 9), .restart = draw_whole(11, i, 0, 12), .mtbf = 1};
    const double interval = draw_whole(12, i, 1, 30), seconds = draw_whole(13, i, 1, 2000);
    std::vector<double> gaps(static_cast<std::size_t>(draw_whole(14, i, 0, 60)));
    for (std::size_t n = 0; n < gaps.size(); ++n) gaps[n] = draw_whole(100 + i, n, 0, 60);
    const TimeSpent is = simulated(costs, interval, seconds, in_turn(gaps));
    expect_spent(is, added_up(costs, interval, seconds, gaps),
                 fmt::format("{:g} s in turns of {:g} + {:g} s, restarts of {:g} s, up to {} failures", seconds,
                             interval, costs.save, costs.restart, gaps.size()));
    expect_seconds(is.seconds(), seconds) << "the four add up to the run";
    if (HasFailure()) return;
  }
}

TEST(Lab25_5b, AThousandDaysWasteWhatTheFormulaSays) {
  constexpr double kDays = 1000 * 86'400.0;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const SavingCosts costs{
        .save = 10 + 200 * draw(20, i), .restart = 900 * draw(21, i), .mtbf = 1800 + 9000 * draw(22, i)};
    const double interval = best_by_scan(costs) * (0.5 + 1.5 * draw(23, i));
    const TimeSpent spent =
        simulated(costs, interval, kDays, Failures(mix(i) ^ testing::drawn({24, i}, 1u << 30), costs.mtbf));
    const double waste = 1 - spent.work / kDays, expected = waste_of(costs, interval);
    // The failures' part varies like √(2/failures); six times that is never seen.
    ASSERT_NEAR(waste / expected, 1, 6 * std::sqrt(2 * costs.mtbf / kDays))
        << "the share of 1,000 days that is not lasting work, with " << words(costs) << ", saving every " << interval
        << " s";
  }
}

// Part c --------------------------------------------------------------------------------------------------------------

std::string words(const MeasuredSaves& s, double mtbf) {
  return fmt::format("steps of {:g} s, stopped {:g} s, complete after {:g} s, a failure every {:g} s", s.step,
                     s.stopped, s.complete, mtbf);
}

/// Expects the least waste of `steps`, at least the fewest allowed, searched among up to 4 times as many as Young's.
void expect_best(const MeasuredSaves& saves, double mtbf, const char* what) {
  constexpr double kRestart = 30;
  const SavingCosts costs{.save = saves.stopped, .restart = kRestart, .mtbf = mtbf};
  int fewest = 1;
  while (saves.stopped + fewest * saves.step < saves.complete - 1e-9 * saves.step) ++fewest;
  const auto waste = [&](int steps) { return waste_of(costs, steps * saves.step); };
  int best = fewest;
  const int most = fewest + 2 + static_cast<int>(4 * std::sqrt(2 * saves.stopped * mtbf) / saves.step);
  for (int steps = fewest; steps <= most; ++steps)
    if (waste(steps) < waste(best)) best = steps;
  const int found = steps_between_saves(saves, kRestart, mtbf);
  ASSERT_GE(found, fewest) << what << ": at least " << fewest << " steps, with " << words(saves, mtbf);
  ASSERT_LE(waste(found), waste(best) + 1e-9) << what << ": the least waste is that of " << best << " steps, not of "
                                              << found << ", with " << words(saves, mtbf);
}

TEST(Lab25_5c, OneStepOrTwo) {
  // √2 steps are where one and two are equally good, if failures are rare.
  const auto steps = [](double young) {
    return steps_between_saves({.step = 1, .stopped = young * young / 2e4, .complete = 1e-9}, 0, 1e4);
  };
  EXPECT_EQ(steps(1.40), 1) << "1.40 steps would be best: one step wastes less than two";
  EXPECT_EQ(steps(1.43), 2) << "1.43 steps would be best: two waste less than one";
  EXPECT_EQ(steps(2.46), 3) << "2.46 steps would be best: three waste less than two, the middle being √6";
  EXPECT_EQ(steps(0.2), 1) << "a fifth of a step would be best: it is at least one";
  EXPECT_GE(steps_between_saves({.step = 1e4, .stopped = 1, .complete = 1}, 0, 1), 1)
      << "no step completes without a failure: still at least one";
}

TEST(Lab25_5c, TheSaveBeforeIsComplete) {
  const auto fewest = [](double complete) {
    return steps_between_saves({.step = 10, .stopped = 0.01, .complete = complete}, 0, 100);
  };
  EXPECT_EQ(fewest(5), 1) << "complete within a step";
  EXPECT_EQ(fewest(95.01), 10) << "complete after 9.5 steps";
  EXPECT_EQ(fewest(100.005), 10) << "complete before the tenth step ends: no reason for an eleventh";
  EXPECT_EQ(fewest(0.001), 1) << "complete before training resumes";
  EXPECT_GT(steps_between_saves({.step = 10, .stopped = 20, .complete = 95}, 0, 1e6), 10)
      << "completing after 9.5 steps is no reason to save that often";
}

TEST(Lab25_5c, DrawnSaves) {
  for (std::uint64_t i = 0; i < 60; ++i) {
    const double mtbf = 500 + 1e5 * draw(31, i), step = 0.2 + 30 * draw(32, i) * draw(33, i);
    const double stopped = step * 20 * std::pow(draw(34, i), 3) + 1e-3;
    expect_best({step, stopped, stopped + 60 * step * draw(35, i) * draw(36, i)}, mtbf, "drawn");
    if (HasFatalFailure()) return;
  }
}

TEST(Lab25_5c, LongSaves) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    const double stopped = 50 + 500 * draw(41, i);
    expect_best({5 + 20 * draw(42, i), stopped, stopped}, 100 + 400 * draw(43, i), "a save about as long as the MTBF");
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep::week25::save_interval_test
