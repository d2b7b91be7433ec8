// Tests of exercise 21.8: the schedule's values, and its purpose: a GPT trained by plain gradient descent on batches
// k times as large follows the curve of the small ones, sample for sample.
#include "labs/week21_data_parallel/large_batch.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/testing/answered.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week21_data_parallel/ddp_gpt_testing.hpp"

namespace lockstep::week21::large_batch_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto scaled_rate = testing::answer<week21::scaled_rate>;
constexpr auto rate_at = testing::answer<week21::rate_at>;
constexpr auto schedule_for_batch = testing::answer<week21::schedule_for_batch>;

using testing::Case;
using testing::run_cases;
using testing::sizes_of;

constexpr RateRule kRules[] = {RateRule::none, RateRule::linear, RateRule::square_root};
const char* name_of(RateRule rule) {
  constexpr const char* kNames[] = {"no scaling", "linear scaling", "square-root scaling"};
  return kNames[static_cast<int>(rule)];
}

// The schedule
// ----------------------------------------------------------------------------------------------------------

TEST(Lab21_8, RatesGrowByTheRule) {
  for (const double rate : {1e-3, 0.25})
    for (const std::size_t base : {1, 8, 48})
      for (const double k : {0.5, 1.0, 2.0, 9.0, 16.0}) {
        const auto batch = static_cast<std::size_t>(static_cast<double>(2 * base) * k);
        const double expected[] = {rate, rate * k, rate * std::sqrt(k)};
        for (const RateRule rule : kRules) {
          const double seen = scaled_rate(rule, rate, 2 * base, batch), right = expected[static_cast<int>(rule)];
          ASSERT_NEAR(seen, right, 1e-9 * rate) << fmt::format(
              "by {} a rate of {:g} for batches of {} becomes {:.6g} for batches of {}, which are {:g} times "
              "as large; it is {:.6g}",
              name_of(rule), rate, 2 * base, right, batch, k, seen);
        }
      }
}

TEST(Lab21_8, WarmUpGoesToThePeakInEqualParts) {
  for (const int warmup : {1, 2, 5, 20})
    for (const double first : {0.0, 0.125, 1.0}) {
      const RateSchedule schedule{.first = first, .peak = 1, .warmup = warmup, .steps = 50};
      double before = first;
      for (int step = 0; step < warmup; ++step) {
        const double rate = rate_at(schedule, step);
        ASSERT_NEAR(rate - before, (1 - first) / warmup, 1e-9)
            << "step " << step << " of " << warmup << " of warm-up from " << first << " to 1: the rate is " << rate
            << " after " << before << "; every step adds the same, step 0 too";
        before = rate;
      }
      ASSERT_NEAR(before, 1, 1e-9) << "the last step of a warm-up of " << warmup << " has the peak rate, 1; it has "
                                   << before;
    }
}

TEST(Lab21_8, ThenItFallsToATenth) {
  for (const int warmup : {0, 7}) {
    const RateSchedule schedule{.first = 0, .peak = 0.5, .warmup = warmup, .steps = 47};
    const auto at = [&](int step) {
      return fmt::format("the rate of step {} is {:.6g} (peak 0.5, {} of 47 steps are warm-up): ", step,
                         rate_at(schedule, step), warmup);
    };
    ASSERT_NEAR(rate_at(schedule, warmup), 0.5, 1e-9)
        << at(warmup) << "the first step after warm-up still has the peak rate";
    for (int step = warmup + 1; step < 47; ++step)
      ASSERT_LT(rate_at(schedule, step), rate_at(schedule, step - 1))
          << at(step) << "after warm-up the rate falls in every step, and the step before has "
          << rate_at(schedule, step - 1);
    for (const int step : {47, 60})
      ASSERT_NEAR(rate_at(schedule, step), 0.05, 1e-9) << at(step) << "at the end a tenth of the peak is left, 0.05";
  }
  const double half = rate_at({.first = 0, .peak = 1, .warmup = 10, .steps = 5}, 4);
  ASSERT_NEAR(half, 0.5, 1e-9) << "a run may end before its warm-up does: the fifth of ten steps from 0 to 1 has 0.5, "
                               << "and the rate is " << half;
}

TEST(Lab21_8, TheScheduleSeesTheSameSamples) {
  const RateSchedule base{.first = 0, .peak = 0.1, .warmup = 3, .steps = 100};
  for (const RateRule rule : kRules)
    for (const std::size_t batch : {4, 8, 24, 64, 99}) {
      const RateSchedule large = schedule_for_batch(base, 8, batch, rule, 5);
      const auto seen = static_cast<std::size_t>(large.steps) * batch;
      ASSERT_TRUE(seen >= 800 && seen < 800 + batch)
          << large.steps << " steps of " << batch << " are " << seen << " samples; the base run saw 100 · 8";
      ASSERT_EQ(large.warmup, 5) << "warm-up must have the 5 steps requested, not " << large.warmup;
      ASSERT_EQ(large.peak, scaled_rate(rule, 0.1, 8, batch))
          << "the peak is " << large.peak << "; by " << name_of(rule) << " the base run's 0.1 changes for batches of "
          << batch << " instead of 8: scaled_rate says which";
      ASSERT_EQ(large.first, std::min(0.1, large.peak))
          << "by " << name_of(rule) << " to batches of " << batch << " warm-up begins at " << large.first
          << "; it begins at the rate that is known to be safe, the base run's peak of 0.1, and never above where it "
             "ends, "
          << large.peak;
    }
}

// The purpose of the schedule
// --------------------------------------------------------------------------------------------------------

constexpr std::size_t kBatch = 2, kTimes = 4;  // batches of B = 2, and of kB = 8
constexpr int kLargeSteps = 8;

/// Trains on the same samples in the same order, whatever the batch. Returns the loss of all of them together, before
/// the first step and after every kB samples.
Values descend(Rank me, const RateSchedule& schedule, std::size_t batch) {
  Gpt gpt(me, small_gpt(), /*seed=*/1);
  const Parameters& parameters = gpt.parameters();
  const Batch all = gpt_batch(me, 0, 0, kBatch * kTimes * kLargeSteps);
  Values losses;
  for (int step = 0; step <= schedule.steps; ++step) {
    if (static_cast<std::size_t>(step) * batch % (kBatch * kTimes) == 0) losses.push_back(gpt_loss(me, gpt, all));
    if (step == schedule.steps) break;
    fill(me, parameters.gradients, 0);
    gpt_pass(me, gpt, gpt_batch(me, 0, static_cast<std::size_t>(step) * batch, batch), 1, [](std::size_t) {});
    scale(me, parameters.gradients, -static_cast<float>(rate_at(schedule, step)));
    add(me, parameters.values, parameters.gradients);
  }
  return losses;
}

/// Losses of batches of B at `rate`, then of kB by each rule: 1 + kLargeSteps of each.
Values curves(Rank me, double rate) {
  const RateSchedule base{.first = rate, .peak = rate, .warmup = 0, .steps = static_cast<int>(kTimes) * kLargeSteps};
  Values seen = descend(me, base, kBatch);
  for (const RateRule rule : kRules) {
    const RateSchedule large = schedule_for_batch(base, kBatch, kBatch * kTimes, rule, 0);
    for (const double loss : descend(me, large, kBatch * kTimes)) seen.push_back(loss);
  }
  return seen;
}

/// The fall of the loss by point `i`, as a share of its fall with batches of B.
double share(const Values& seen, RateRule rule, std::size_t i) {
  constexpr std::size_t kPoints = 1 + kLargeSteps;
  return (seen[0] - seen.at(kPoints * (1 + static_cast<std::size_t>(rule)) + i)) / (seen[0] - seen.at(i));
}

void check_curves(double rate, const std::function<std::string(const Values&)>& judge) {
  run_cases([=](Rank me, const Case&) { return curves(me, rate); },
            [&](const Case&, const Outcome& outcome) -> std::string {
              const std::size_t expected = 4 * (1 + kLargeSteps), losses = outcome.values[0].size();
              if (losses != expected)
                return fmt::format("{} losses, expected {}: the runs do not see the same samples", losses, expected);
              for (const double loss : outcome.values[0])
                if (!std::isfinite(loss))
                  return fmt::format(
                      "with a rate of {:g} a loss is not a number: are all rates of the schedule finite?", rate);
              return judge(outcome.values[0]);
            },
            {.ranks = {1}, .sizes = sizes_of({0}), .unit = ""});
}

TEST(Lab21_8, LargeBatchesFollowTheCurveOfSmallOnes) {
  check_curves(0.0125, [](const Values& seen) -> std::string {
    for (std::size_t i = 1; i <= kLargeSteps; ++i) {
      const double linear = share(seen, RateRule::linear, i), none = share(seen, RateRule::none, i);
      if (!(std::abs(linear - 1) <= 0.04))
        return fmt::format(
            "after {} samples, in batches {} times as large with the rate scaled linearly, the loss has fallen by "
            "{:.0f}% of what it falls with small batches; the curves must coincide",
            i * kBatch * kTimes, kTimes, 100 * linear);
      if (none > 0.5)
        return fmt::format(
            "after {} samples in large batches without scaling the loss has fallen by {:.0f}% of that; "
            "with one step for {} it cannot fall so far",
            i * kBatch * kTimes, 100 * none, kTimes);
      const double root = share(seen, RateRule::square_root, i);
      if (root <= none || root >= linear)
        return fmt::format(
            "√k lies between the other rules, but the losses have fallen by {:.0f}, {:.0f} and {:.0f}% of that",
            100 * none, 100 * root, 100 * linear);
    }
    const auto end_of = [&](RateRule rule) {
      return seen.at((1 + kLargeSteps) * (1 + static_cast<std::size_t>(rule)) + kLargeSteps);
    };
    testing::note(
        fmt::format("batches of {}: loss {:.3f} → {:.3f}. Batches of {}: → {:.3f} with the same rate, {:.3f} "
                    "with √k, {:.3f} with the linear rule",
                    kBatch, seen[0], seen[kLargeSteps], kBatch * kTimes, end_of(RateRule::none),
                    end_of(RateRule::square_root), end_of(RateRule::linear)));
    return "";
  });
}

// The counter-example: where gradients change within k small steps, one large one is not their sum.
TEST(Lab21_8, UntilTheRateIsTooLarge) {
  check_curves(0.2, [](const Values& seen) -> std::string {
    const double linear = share(seen, RateRule::linear, kLargeSteps);
    testing::note(
        fmt::format("with a rate of 0.2 the linear rule reaches {:.0f}% of the small batches' decrease", 100 * linear));
    if (linear < 0.8) return "";
    return fmt::format(
        "with a rate of 0.2 · {} the loss fell by {:.0f}% of what it falls with small batches: the linear rule is "
        "expected to fail here. Is the rate scaled?",
        kTimes, 100 * linear);
  });
}

}  // namespace
}  // namespace lockstep::week21::large_batch_test
