// Tests of exercise 25.4: costs that add up, limits that were planted by chance, and laws that are known.
#include "labs/week25_3d/diagnosis.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <climits>
#include <cmath>

#include "common/error.hpp"
#include "labs/week25_3d/diagnosis_testing.hpp"

namespace lockstep::week25 {
namespace {

constexpr Limit kLimits[] = {Limit::none,      Limit::not_overlapped, Limit::communication, Limit::bubble,
                             Limit::imbalance, Limit::launch,         Limit::repeated};
constexpr unsigned kSeeds = 8;

const char* name_of(Limit limit) {
  switch (limit) {
    case Limit::none: return "none";
    case Limit::not_overlapped: return "communication that is not overlapped";
    case Limit::communication: return "more communication than arithmetic";
    case Limit::bubble: return "the bubble";
    case Limit::imbalance: return "imbalance";
    case Limit::launch: return "launch overhead";
    case Limit::repeated: return "repeated arithmetic";
  }
  return "";
}

bool outside_simulator() { return std::string_view(backend_name()) != "sim"; }

// Part a --------------------------------------------------------------------------------------------------------------

/// Three ranks, of which the second computes most: 12 + 20 + 10 ms, a ms of launch each.
StepLedgers three_ranks() {
  StepLedgers step{.seconds = 30e-3, .latency = 1e-3, .seconds_per_byte = 1e-6};
  for (double arithmetic : {12e-3, 20e-3, 10e-3})
    step.ranks.push_back({.arithmetic = arithmetic, .launch = 1e-3, .hidden = 2e-3, .messages = 2, .bytes = 4000});
  return step;
}

TEST(Lab25_4a, OneStepByHand) {
  const Decomposition d = decompose(three_ranks());
  EXPECT_DOUBLE_EQ(d.compute, 13e-3) << "compute is arithmetic without launch, mean over the ranks";
  EXPECT_DOUBLE_EQ(d.launch, 1e-3) << "launch is the mean over the ranks";
  EXPECT_DOUBLE_EQ(d.imbalance, 6e-3) << "imbalance is what the busy rank computes beyond the mean of 14 ms";
  EXPECT_DOUBLE_EQ(d.wire, 6e-3) << "2 messages of 1 ms latency, 4000 bytes of 1 µs";
  EXPECT_DOUBLE_EQ(d.exposed, 4e-3) << "of 6 ms on the wire, arithmetic hid 2";
  EXPECT_DOUBLE_EQ(d.bubble, 6e-3) << "the busy rank waits 10 ms, of which its messages explain 4";
}

TEST(Lab25_4a, ExposedIsNeverNegativeAndNeverMoreThanTheWait) {
  StepLedgers hidden = three_ranks();
  for (RankStep& rank : hidden.ranks) rank.hidden = 7e-3;
  EXPECT_EQ(decompose(hidden).exposed, 0) << "more was hidden than the messages' price: nothing is exposed";
  EXPECT_DOUBLE_EQ(decompose(hidden).bubble, 10e-3) << "what the busy rank waits and messages do not explain";
  StepLedgers slow = three_ranks();
  slow.seconds_per_byte = 1e-3;
  EXPECT_DOUBLE_EQ(decompose(slow).exposed, 10e-3) << "exposed is at most what the busy rank waits";
  EXPECT_DOUBLE_EQ(decompose(slow).bubble, 0);
}

TEST(Lab25_4a, TheCostsOfRunsAddUpToTheStep) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  for (Limit kind : kLimits)
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
      const Plant plant = planted(kind, seed);
      const StepLedgers step = ledgers_of(plant, plant.ranks);
      const Decomposition d = decompose(step);
      ASSERT_NEAR(d.seconds() / step.seconds, 1, 1e-9)
          << "the five costs add up to the step (" << name_of(kind) << ", seed " << seed << ")";
      for (double cost : {d.compute, d.launch, d.imbalance, d.exposed, d.bubble})
        ASSERT_GE(cost, -1e-12) << "no cost is negative (" << name_of(kind) << ", seed " << seed << ")";
    }
}

TEST(Lab25_4a, TheCostsOfRunsAreThosePlanted) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    const auto costs = [&](Limit kind) {
      const Plant plant = planted(kind, seed);
      return decompose(ledgers_of(plant, plant.ranks));
    };
    const Plant ring = planted(Limit::not_overlapped, seed), slow = planted(Limit::imbalance, seed),
                small = planted(Limit::launch, seed), pipeline = planted(Limit::bubble, seed);
    EXPECT_NEAR(costs(Limit::not_overlapped).exposed / ring.wire, 1, 0.02)
        << "a ring after the arithmetic, seed " << seed;
    const double beyond = slow.arithmetic * (slow.slow - 1) * (1 - 1.0 / slow.ranks);
    EXPECT_NEAR(costs(Limit::imbalance).imbalance / beyond, 1, 0.01) << "one slow rank, seed " << seed;
    const double operations = small.operations + (small.repeated > 1e-12 ? 1 : 0);
    EXPECT_NEAR(costs(Limit::launch).launch / (operations * small.launch), 1, 0.01) << "many operations, seed " << seed;
    // A stage waits for p − 1 forwards and backwards of a microbatch; what stages do unequally is small.
    const double bubble = (pipeline.ranks - 1) * pipeline.arithmetic / pipeline.microbatches;
    EXPECT_NEAR(costs(Limit::bubble).bubble / bubble, 1, 0.1) << "a pipeline of few microbatches, seed " << seed;
  }
}

// Part b --------------------------------------------------------------------------------------------------------------

void expect_limit(const Diagnosis& found, Limit expected, const char* why) {
  if (found.limit != expected)
    ADD_FAILURE() << "named: " << name_of(found.limit) << ", expected: " << name_of(expected) << ": " << why;
}

TEST(Lab25_4b, LossesAreWhatGoesBeyondTheShare) {
  const Decomposition serial{.compute = 80e-3, .launch = 8e-3};
  const Decomposition parallel{.compute = 21e-3, .launch = 8e-3, .exposed = 4e-3, .bubble = 1e-3, .wire = 4e-3};
  const Diagnosis strong = name_limit(parallel, serial, 4, Scaling::strong);
  expect_limit(strong, Limit::launch, "four ranks share 8 ms of launch: 2 ms each, and 8 are paid, so 6 are lost");
  EXPECT_DOUBLE_EQ(strong.ideal, 22e-3);
  EXPECT_DOUBLE_EQ(strong.lost, 12e-3);
  EXPECT_DOUBLE_EQ(strong.most, 6e-3) << "8 ms of launch, of which a share of 2 is no loss: 6 are lost";
  const Decomposition one{.compute = 20e-3, .launch = 8e-3};
  const Diagnosis weak = name_limit(parallel, one, 4, Scaling::weak);
  expect_limit(weak, Limit::not_overlapped, "weak scaling: each rank pays for its own launches, as one does alone");
  EXPECT_DOUBLE_EQ(weak.ideal, 28e-3);
  EXPECT_DOUBLE_EQ(weak.most, 4e-3);
}

TEST(Lab25_4b, MessagesThatArithmeticCannotHideAreAnotherLimit) {
  const Decomposition serial{.compute = 40e-3};
  Decomposition parallel{.compute = 10e-3, .exposed = 5e-3, .wire = 5e-3};
  expect_limit(name_limit(parallel, serial, 4, Scaling::strong), Limit::not_overlapped,
               "5 ms on the wire fit behind 10 ms of arithmetic");
  parallel.wire = 15e-3;
  expect_limit(name_limit(parallel, serial, 4, Scaling::strong), Limit::communication,
               "15 ms on the wire do not fit behind 10 ms of arithmetic");
}

TEST(Lab25_4b, LittleLossIsNoLimit) {
  const Decomposition serial{.compute = 40e-3};
  const Diagnosis d = name_limit({.compute = 10e-3, .bubble = 0.5e-3}, serial, 4, Scaling::strong);
  expect_limit(d, Limit::none, "0.5 ms of the step of 10.5 are less than 5 %");
  EXPECT_DOUBLE_EQ(d.lost, 0.5e-3);
  EXPECT_EQ(d.most, 0);
}

/// T(p) beside T(1): for weak scaling the serial step is what one rank does of the parallel one.
Diagnosis diagnosed(const Plant& plant, Scaling scaling) {
  Plant alone = plant;
  if (scaling == Scaling::weak) {
    alone.ranks = 1;
    alone.slow = 1;
  }
  return name_limit(decompose(ledgers_of(plant, plant.ranks)), decompose(ledgers_of(alone, 1)), plant.ranks, scaling);
}

TEST(Lab25_4b, NamesWhatWasPlanted) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  for (Limit kind : kLimits)
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
      const Plant plant = planted(kind, seed);
      const Limit found = diagnosed(plant, Scaling::strong).limit;
      ASSERT_EQ(found, kind) << "planted: " << name_of(kind) << ", named: " << name_of(found) << " (strong scaling, "
                             << plant.ranks << " ranks, seed " << seed << ")";
    }
}

TEST(Lab25_4b, WhatOneRankPaysAsWellIsNoLossOfWeakScaling) {
  if (outside_simulator()) GTEST_SKIP() << "a statement about virtual time";
  for (Limit kind : kLimits)
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
      const Limit expected = kind == Limit::launch || kind == Limit::repeated ? Limit::none : kind;
      const Limit found = diagnosed(planted(kind, seed), Scaling::weak).limit;
      ASSERT_EQ(found, expected) << "planted: " << name_of(kind) << ", named: " << name_of(found)
                                 << " (weak scaling, seed " << seed << ")";
    }
}

// Part c --------------------------------------------------------------------------------------------------------------

std::vector<Measured> strong_times(double s) {
  std::vector<Measured> times;
  for (int p : {1, 2, 4, 8})
    for (double noise : {0.99, 1.01}) times.push_back({p, noise * 2 / week21::amdahl_speedup(s, p)});
  return times;
}
std::vector<Measured> weak_times(double s) {
  std::vector<Measured> times;
  for (int p : {1, 2, 4, 8})
    for (double noise : {0.99, 1.01}) times.push_back({p, noise * 2 * p / week21::gustafson_speedup(s, p)});
  return times;
}

void expect_fraction(const week21::SerialFraction& found, double s, const std::string& law) {
  EXPECT_NEAR(found.value, s, 0.01) << law;
  EXPECT_LE(found.low, s) << law << ": the interval holds the truth";
  EXPECT_GE(found.high, s) << law << ": the interval holds the truth";
  EXPECT_LT(found.high - found.low, 0.1) << law << ": 1 % of noise, and an interval that says nothing";
}

TEST(Lab25_4c, RecoversAFractionThatIsKnown) {
  for (double s : {0.02, 0.1, 0.3}) {
    expect_fraction(fit_strong(strong_times(s)), s, fmt::format("Amdahl, s = {}", s));
    expect_fraction(fit_weak(weak_times(s)), s, fmt::format("Gustafson, s = {}", s));
  }
}

TEST(Lab25_4c, TheIntervalIsStudents) {
  // Speedups of 1.8 and 1.6 on two ranks: s = 0.3 with a standard error of 0.1, and t(1) = 12.706.
  const week21::SerialFraction s = fit_weak({{1, 1}, {2, 2 / 1.8}, {2, 2 / 1.6}});
  EXPECT_NEAR(s.value, 0.3, 1e-9);
  EXPECT_NEAR(s.high - s.value, 1.2706, 1e-4) << "half of the interval is t times the standard error";
  EXPECT_NEAR(s.value - s.low, 1.2706, 1e-4) << "half of the interval is t times the standard error";
}

TEST(Lab25_4c, TimesWithoutCoresAreLeftOut) {
  for (double s : {0.02, 0.2}) {
    std::vector<Measured> strong = strong_times(s), weak = weak_times(s);
    for (int p : {16, 32})  // ranks that share cores
      for (std::vector<Measured>* times : {&strong, &weak}) times->push_back({p, 9, false});
    EXPECT_NEAR(fit_strong(strong).value, s, 0.01)
        << "a time without a core for each rank is no measurement of scaling";
    EXPECT_NEAR(fit_weak(weak).value, s, 0.01) << "a time without a core for each rank is no measurement of scaling";
  }
  EXPECT_THROW(fit_strong({{1, 1}, {2, 0.6, false}, {4, 0.4, false}}), Error);
  EXPECT_THROW(fit_weak({{1, 1}, {2, 1.1}, {4, 1.2, false}}), Error);
  EXPECT_THROW(fit_weak({{2, 1.1}, {4, 1.2}}), Error);
}

TEST(Lab25_4c, TheMostRanksThatAreWorthIt) {
  for (double s : {0.01, 0.1, 0.5})
    for (double efficiency : {0.25, 0.5, 0.9, 1.0}) {
      const int most = most_ranks(s, efficiency);
      const auto reached = [&](int p) { return week21::amdahl_speedup(s, p) / p; };
      EXPECT_GE(reached(most), efficiency * (1 - 1e-9)) << most << " ranks, s = " << s;
      EXPECT_LT(reached(most + 1), efficiency) << most + 1 << " ranks are still efficient, s = " << s;
    }
  EXPECT_EQ(most_ranks(0, 0.5), INT_MAX) << "nothing serial: no limit";
  EXPECT_EQ(most_ranks(-0.01, 0.5), INT_MAX);
  EXPECT_EQ(most_ranks(1e-12, 0.5), INT_MAX) << "more than an int holds";
  EXPECT_THROW(most_ranks(0.1, 0), Error);
}

}  // namespace
}  // namespace lockstep::week25
