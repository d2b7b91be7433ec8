// Tests of exercise 25.4, parts a and b: costs that add up, and limits that were planted by chance.
#include "labs/week25_3d/diagnosis.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/testing/answered.hpp"
#include "common/testing/expect_near.hpp"
#include "labs/week25_3d/diagnosis_testing.hpp"

namespace lockstep::week25::diagnosis_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto decompose = testing::answer<week25::decompose>;
constexpr auto name_limit = testing::answer<week25::name_limit>;

using testing::expect_seconds;

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

/// Three ranks, of which the second computes most: 12 + 20 + 10 ms; half a ms of launch, 1 and 1.5.
StepLedgers three_ranks() {
  StepLedgers step{.seconds = 30e-3, .latency = 1e-3, .seconds_per_byte = 1e-6};
  step.ranks = {{.arithmetic = 12e-3, .launch = 0.5e-3, .hidden = 0, .messages = 4, .bytes = 1000},
                {.arithmetic = 20e-3, .launch = 1e-3, .hidden = 2e-3, .messages = 2, .bytes = 4000},
                {.arithmetic = 10e-3, .launch = 1.5e-3, .hidden = 1e-3, .messages = 1, .bytes = 7000}};
  return step;
}

TEST(Lab25_4a, OneStepByHand) {
  const Decomposition d = decompose(three_ranks());
  expect_seconds(d.compute, 13e-3) << "compute is arithmetic without launch, mean over the ranks";
  expect_seconds(d.launch, 1e-3) << "launch is the mean over the ranks";
  expect_seconds(d.imbalance, 6e-3) << "imbalance is what the busy rank computes beyond the mean of 14 ms";
  expect_seconds(d.wire, 6e-3) << "wire: 2 messages of 1 ms latency, 4000 bytes of 1 µs";
  expect_seconds(d.exposed, 4e-3) << "exposed: of 6 ms on the wire, arithmetic hid 2";
  expect_seconds(d.bubble, 6e-3) << "bubble: the busy rank waits 10 ms, of which its messages explain 4";
}

TEST(Lab25_4a, OneRankAlone) {
  const Decomposition d = decompose({.seconds = 5e-3, .ranks = {{.arithmetic = 4e-3, .launch = 1e-3}}});
  expect_seconds(d.compute, 3e-3) << "compute of one rank: its arithmetic without launch";
  expect_seconds(d.imbalance, 0) << "imbalance: one rank is the mean";
  expect_seconds(d.exposed, 0) << "exposed: one rank has no messages";
  expect_seconds(d.bubble, 1e-3) << "bubble: while it does not compute, it waits";
}

TEST(Lab25_4a, ExposedIsNeverNegativeAndNeverMoreThanTheWait) {
  StepLedgers hidden = three_ranks();
  for (RankStep& rank : hidden.ranks) rank.hidden = 7e-3;
  expect_seconds(decompose(hidden).exposed, 0) << "exposed: more was hidden than the messages cost: nothing is exposed";
  expect_seconds(decompose(hidden).bubble, 10e-3) << "bubble: the busy rank's waiting that messages do not explain";
  StepLedgers slow = three_ranks();
  slow.seconds_per_byte = 1e-3;
  expect_seconds(decompose(slow).exposed, 10e-3) << "exposed is at most what the busy rank waits";
  expect_seconds(decompose(slow).bubble, 0) << "bubble: messages explain all of the busy rank's waiting";
}

TEST(Lab25_4a, TheCostsOfRunsAddUpToTheStep) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
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
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
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

/// Ranks by chance, of which --seed draws others: every cost from its own definition.
TEST(Lab25_4a, OfAnyRanks) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::mt19937 random(static_cast<unsigned>(i + testing::drawn({25, 9, i}, 1u << 30)));
    const auto whole = [&](unsigned below) { return static_cast<double>(random() % below); };
    StepLedgers step{.latency = 1 + whole(3), .seconds_per_byte = 0.25};
    step.ranks.resize(1 + random() % 6 + testing::drawn({25, 18, i}, 8));
    double computed = 0, launched = 0;
    std::size_t busy = 0;
    for (std::size_t r = 0; r < step.ranks.size(); ++r) {
      // The rank's number makes it the only one with so much arithmetic.
      step.ranks[r] = {.arithmetic = 20 + whole(50) + static_cast<double>(r) / 16,
                       .launch = whole(9),
                       .hidden = whole(9),
                       .messages = whole(9),
                       .bytes = 4 * whole(9)};
      computed += step.ranks[r].arithmetic - step.ranks[r].launch, launched += step.ranks[r].launch;
      if (step.ranks[r].arithmetic > step.ranks[busy].arithmetic) busy = r;
    }
    const RankStep& most = step.ranks[busy];
    const double n = static_cast<double>(step.ranks.size()), waits = whole(40);
    step.seconds = most.arithmetic + waits;
    const double wire = most.messages * step.latency + most.bytes / 4;
    const double exposed = std::clamp(wire - most.hidden, 0.0, waits);
    const Decomposition d = decompose(step);
    const std::string what = fmt::format("{} rank{}, rank {} is the busiest: ", n, n == 1 ? "" : "s", busy);
    expect_seconds(d.compute, computed / n) << what << "compute is the mean of arithmetic without launch";
    expect_seconds(d.launch, launched / n) << what << "launch is the mean over the ranks";
    expect_seconds(d.imbalance, most.arithmetic - (computed + launched) / n)
        << what << "imbalance is what the busiest rank computes beyond the mean";
    expect_seconds(d.wire, wire) << what << "the wire is its messages' latency, and its bytes";
    expect_seconds(d.exposed, exposed) << what << "exposed is the wire beyond what was hidden, of " << waits
                                       << " s of waiting at most";
    expect_seconds(d.bubble, waits - exposed) << what << "the bubble is the waiting that messages do not explain";
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
  expect_seconds(strong.ideal, 22e-3) << "ideal: 88 ms over four ranks";
  expect_seconds(strong.lost, 12e-3) << "lost: 34 ms, of which 22 are the share";
  expect_seconds(strong.most, 6e-3) << "most: 8 ms of launch, of which a share of 2 is no loss: 6 are lost";
  const Decomposition one{.compute = 20e-3, .launch = 8e-3};
  const Diagnosis weak = name_limit(parallel, one, 4, Scaling::weak);
  expect_limit(weak, Limit::not_overlapped, "weak scaling: each rank pays for its own launches, as a single rank does");
  expect_seconds(weak.ideal, 28e-3) << "ideal, of weak scaling: what one rank takes";
  expect_seconds(weak.most, 4e-3) << "most: 4 ms of messages are exposed, and one rank has none";
}

/// A cost that one rank has too is no loss: with each cost in turn, 5 s of another cost are.
TEST(Lab25_4b, EveryCostIsComparedWithItsShare) {
  struct Cost {
    double Decomposition::*seconds;
    Limit limit;
  };
  constexpr Cost costs[] = {{&Decomposition::exposed, Limit::not_overlapped},
                            {&Decomposition::bubble, Limit::bubble},
                            {&Decomposition::imbalance, Limit::imbalance},
                            {&Decomposition::launch, Limit::launch},
                            {&Decomposition::compute, Limit::repeated}};
  for (const Scaling scaling : {Scaling::strong, Scaling::weak})
    for (const Cost& shared : costs)
      for (const Cost& own : costs) {
        if (shared.limit == own.limit) continue;
        const double ranks = scaling == Scaling::strong ? 4 : 1;
        Decomposition serial{.compute = 10 * ranks}, parallel{.compute = 10, .wire = 5};
        serial.*shared.seconds += 29 * ranks;
        parallel.*shared.seconds += 30;
        parallel.*own.seconds += 5;
        const Diagnosis found = name_limit(parallel, serial, 4, scaling);
        const std::string why =
            fmt::format("of 30 s of {}, 29 are the share of the serial step; of 5 s of {} nothing is",
                        name_of(shared.limit), name_of(own.limit));
        expect_limit(found, own.limit, why.c_str());
        expect_seconds(found.most, 5) << "most: " << why;
        expect_seconds(found.lost, 6) << "lost: " << why;
      }
}

TEST(Lab25_4b, MessagesThatArithmeticCannotHideAreAnotherLimit) {
  const Decomposition serial{.compute = 40e-3};
  Decomposition parallel{.compute = 10e-3, .exposed = 5e-3, .wire = 5e-3};
  expect_limit(name_limit(parallel, serial, 4, Scaling::strong), Limit::not_overlapped,
               "5 ms on the wire fit behind 10 ms of arithmetic");
  parallel.wire = 15e-3;
  expect_limit(name_limit(parallel, serial, 4, Scaling::strong), Limit::communication,
               "15 ms on the wire do not fit behind 10 ms of arithmetic");
  const Decomposition with_launch{.compute = 40, .launch = 8};
  expect_limit(name_limit({.compute = 10, .launch = 2, .exposed = 5, .wire = 11}, with_launch, 4, Scaling::strong),
               Limit::not_overlapped, "11 s on the wire fit behind 12 s of arithmetic: 10 of compute, and 2 of launch");
}

TEST(Lab25_4b, LittleLossIsNoLimit) {
  const Decomposition serial{.compute = 40e-3};
  const Diagnosis d = name_limit({.compute = 10e-3, .bubble = 0.5e-3}, serial, 4, Scaling::strong);
  expect_limit(d, Limit::none, "0.5 ms of the step of 10.5 are less than 5%");
  expect_seconds(d.lost, 0.5e-3) << "lost is given, however little it is";
  expect_seconds(d.most, 0) << "most: no limit, so it costs nothing";
  expect_limit(name_limit({.compute = 18.9, .bubble = 1.1}, {.compute = 75.6}, 4, Scaling::strong), Limit::bubble,
               "1.1 s of 20 are more than 5%");
}

/// T(p) next to T(1): for weak scaling the serial step is one rank's part of the parallel one.
Diagnosis diagnosed(const Plant& plant, Scaling scaling) {
  Plant alone = plant;
  if (scaling == Scaling::weak) {
    alone.ranks = 1;
    alone.slow = 1;
  }
  return name_limit(decompose(ledgers_of(plant, plant.ranks)), decompose(ledgers_of(alone, 1)), plant.ranks, scaling);
}

TEST(Lab25_4b, NamesWhatWasPlanted) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  for (Limit kind : kLimits)
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
      const Plant plant = planted(kind, seed);
      const Limit found = diagnosed(plant, Scaling::strong).limit;
      ASSERT_EQ(found, kind) << "planted: " << name_of(kind) << ", named: " << name_of(found) << " (strong scaling, "
                             << plant.ranks << " ranks, seed " << seed << ")";
    }
}

TEST(Lab25_4b, WhatOneRankPaysAsWellIsNoLossOfWeakScaling) {
  if (outside_simulator()) GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  for (Limit kind : kLimits)
    for (unsigned seed = 1; seed <= kSeeds; ++seed) {
      const Limit expected = kind == Limit::launch || kind == Limit::repeated ? Limit::none : kind;
      const Limit found = diagnosed(planted(kind, seed), Scaling::weak).limit;
      ASSERT_EQ(found, expected) << "planted: " << name_of(kind) << ", named: " << name_of(found)
                                 << " (weak scaling, seed " << seed << ")";
    }
}

}  // namespace
}  // namespace lockstep::week25::diagnosis_test
