// Tests of exercise 25.8, parts a, b and d: which step, who gives what to whom, and what it is worth. Part c and all
// parts together are in survivors_shards_test.cpp.
#include "labs/week25_3d/survivors.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "common/testing/answered.hpp"
#include "common/testing/expect_near.hpp"
#include "common/testing/inputs.hpp"
#include "labs/week25_3d/save_interval_testing.hpp"
#include "labs/week25_3d/survivors_testing.hpp"

namespace lockstep::week25::survivors_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto newest_whole = testing::answer<week25::newest_whole>;
constexpr auto moves_of = testing::answer<week25::moves_of>;
constexpr auto goodput = testing::answer<week25::goodput>;
constexpr auto time_to_loss = testing::answer<week25::time_to_loss>;

using save_interval_test::draw, save_interval_test::draw_whole;
using testing::ExpectNear;

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab25_8a, StepsByHand) {
  const std::vector<Remembered> same(4, {{100, 110}, {100, 110}});
  EXPECT_EQ(newest_whole(same, {1}), 110) << "rank 1 is dead, and rank 2 remembers its shard of step 110";
  EXPECT_EQ(newest_whole(same, {}), 110) << "nobody is dead";
  EXPECT_EQ(newest_whole(same, {3}), 110) << "rank 3 is dead, and the rank after it is rank 0";
  EXPECT_EQ(newest_whole(same, {0, 2}), 110) << "two are dead, and each has a living rank after it";
  EXPECT_EQ(newest_whole(same, {2, 1}), -1) << "ranks 1 and 2 are dead: rank 1's shard was on these two only";
  EXPECT_EQ(newest_whole(same, {3, 0}), -1) << "ranks 3 and 0 are dead: rank 3's shard was on these two only";
  EXPECT_EQ(newest_whole({{{5}, {5}}}, {}), 5) << "one rank is its own neighbour";
  EXPECT_EQ(newest_whole({{{5}, {5}}}, {0}), -1) << "the only rank is dead";
}

TEST(Lab25_8a, TheSnapshotThatWasNotComplete) {
  std::vector<Remembered> ranks(3, {{20, 10}, {10, 20}});
  ranks[2].previous = {10};
  EXPECT_EQ(newest_whole(ranks, {}), 20) << "rank 2 lacks its copy of step 20, and rank 1 has its own";
  EXPECT_EQ(newest_whole(ranks, {1}), 10) << "rank 1 is dead, and rank 2's copy of its shard is of step 10";
  EXPECT_EQ(newest_whole(ranks, {0}), 20) << "rank 0 is dead, and rank 1 has a copy of step 20";
  ranks[2].previous = {};
  EXPECT_EQ(newest_whole(ranks, {1}), -1) << "rank 1 is dead, and nobody has a copy of its shard";
  ranks[2].own = {20};
  ranks[0].previous = {10};
  EXPECT_EQ(newest_whole(ranks, {}), 20) << "step 10 of shard 2 is a copy, and step 20 its owner's";
  EXPECT_EQ(newest_whole(ranks, {2}), 10) << "rank 2 is dead, and rank 0's copy of its shard is of step 10";
  ranks[1].own = {20};
  EXPECT_EQ(newest_whole(ranks, {2}), -1) << "of shard 1 there is step 20 alone, and of shard 2 step 10";
}

/// Steps 1 to 6, each with one chance in two.
std::vector<int> some_steps(std::uint64_t which) {
  std::vector<int> steps;
  for (int step = 6; step >= 1; --step)
    if (draw(21, which * 8 + static_cast<std::uint64_t>(step)) < 0.6) steps.push_back(step);
  return steps;
}

TEST(Lab25_8a, AnyMemories) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const int p = static_cast<int>(draw_whole(22, i, 1, 5));
    std::vector<Remembered> ranks;
    for (std::uint64_t r = 0; r < static_cast<std::uint64_t>(p); ++r)
      ranks.push_back({some_steps(i * 16 + 2 * r), some_steps(i * 16 + 2 * r + 1)});
    std::vector<int> dead;
    for (int r = p; r-- > 0;)
      if (draw(23, i * 8 + static_cast<std::uint64_t>(r)) < 0.2) dead.push_back(r);
    int right = -1;
    for (int step = 1; step <= 6; ++step) {
      bool whole = true;
      for (int shard = 0; shard < p; ++shard) {
        const auto has = [&](int rank, const std::vector<int>& steps) {
          return std::ranges::count(dead, rank) == 0 && std::ranges::count(steps, step) > 0;
        };
        const int next = (shard + 1) % p;
        whole &= has(shard, ranks[static_cast<std::size_t>(shard)].own) ||
                 has(next, ranks[static_cast<std::size_t>(next)].previous);
      }
      if (whole) right = step;
    }
    ASSERT_EQ(newest_whole(ranks, dead), right) << "newest_whole(" << words_of_values(ranks, dead) << ")";
  }
}

// Part b --------------------------------------------------------------------------------------------------------------

TEST(Lab25_8b, EveryElementFromTheNearest) {
  for (const Change& change : changes())
    for (const std::size_t n : kLengths) {
      const std::string wrong = wrong_moves(change, n, moves_of(n, change.ranks, change.was));
      if (!wrong.empty()) FAIL() << words(change) << ", " << n << " elements: " << wrong;
    }
}

std::size_t sent(const std::vector<Move>& moves) {
  std::size_t sum = 0;
  for (const Move& move : moves) sum += move.from == move.to ? 0 : move.size;
  return sum;
}

TEST(Lab25_8b, WhatADeathSends) {
  constexpr int kRanks = 8;
  constexpr std::size_t kElements = std::size_t{kRanks} * (kRanks - 1) * 100;
  for (int dead = 0; dead < kRanks; ++dead) {
    const auto moves = moves_of(kElements, kRanks, without(kRanks, {dead}));
    ASSERT_EQ(sent(moves), static_cast<std::size_t>(dead * (dead + 1) / 2) * 100)
        << "elements sent of " << kElements << " when rank " << dead << " of " << kRanks
        << " dies: the ranks after it hold all that they need, and each rank r before it lacks (r + 1)/(p(p − 1)) of "
           "the array";
  }
}

TEST(Lab25_8b, AShardThatNobodyHolds) {
  const auto refused = [](int p, const std::vector<int>& was, const std::string& shard) {
    const std::string change = words(Change{p, was});
    try {
      moves_of(24, p, was);
      ADD_FAILURE() << change << ": no error, expected one: nobody holds " << shard;
    } catch (const Error& error) {
      if (error.verdict() == Verdict::not_implemented) throw;
      if (error.verdict() != Verdict::fail)
        ADD_FAILURE() << change << ": the error's verdict is " << to_string(error.verdict())
                      << ", expected Verdict::fail, for nobody holds " << shard << ". It says: " << error.what();
      if (std::string(error.what()).find(shard) == std::string::npos)
        ADD_FAILURE() << change << ": the message does not name \"" << shard
                      << "\", which nobody holds. It says: " << error.what();
    } catch (const std::exception& other) {
      ADD_FAILURE() << change << ": nobody holds " << shard << ", and what was thrown is no Error: \"" << other.what()
                    << "\". Throw Error(Verdict::fail, …) with that message";
    }
  };
  refused(4, {0, 3}, "shard 1");
  refused(4, {1, 2}, "shard 3");
  refused(3, {1, -1, -1}, "shard 2");
  refused(1, {-1}, "shard 0");
}

// Part d --------------------------------------------------------------------------------------------------------------

TEST(Lab25_8d, GoodputByHand) {
  const double forever = 1e15;
  ExpectNear(goodput({.ranks = 8, .mtbf = forever, .interval = 90, .snapshot = 10}), 0.9)
      << "no failures: 90 of each 100 s are work";
  ExpectNear(goodput({.ranks = 8, .mtbf = forever, .interval = 100, .repair = forever}), 0.5)
      << "a repair takes as long as a rank lives: half of the ranks are there";
  // With 4 ranks one fails every 1/ln 2 seconds, so that e^(t/M) = 2^t.
  const double m = 1 / std::log(2.0);
  const SurvivorCosts costs{.ranks = 4, .mtbf = 4 * m, .interval = 2, .snapshot = 1, .resume = 0.25, .join = 0.75};
  const double seen = goodput(costs);
  const auto is = [seen](double value) { return std::abs(seen - value) <= testing::kAnyOrder; };
  ExpectNear(seen, 1 / (m * 7))
      << "4 ranks of mtbf 4·M, M = 1/ln 2 s, interval 2 s, snapshot 1 s, resume 0.25 s, join 0.75 s, repair 0: 2 s of "
         "work and 1 s of snapshot take (2³ − 1)·M, and resume and join, one second together, double that. So lasting "
         "work is 2/(14·M) of the time"
      << (is(2 / (m * 7 * std::exp2(0.25))) ? ". Yours is without join" : "")
      << (is(2 / (4 * m * std::exp2(0.25) * (std::exp2(0.75) - 1)))
              ? ". Yours has the failures of one rank: of 4, one fails every mtbf/4"
              : "");
}

/// Lasting work over time, where each of p ranks fails by itself: at a failure, unsaved work is lost and the others
/// resume; `repair` seconds later one joins. Each second counts by the ranks that are there.
double simulated_goodput(const SurvivorCosts& c, int failures, std::uint64_t seed) {
  double now = 0, lasting = 0, unsaved = 0, worked = 0, stopped_until = 0;
  std::vector<double> joins;  // in order
  std::uint64_t drawn = 0;
  const auto next_failure = [&] {
    const double there = c.ranks - static_cast<double>(joins.size());
    return now - c.mtbf / there * std::log1p(-draw(seed, drawn++));
  };
  for (double failure = next_failure(); failures > 0;) {
    const double join = joins.empty() ? INFINITY : joins.front();
    const double event = std::min(failure, join);
    const double share = (c.ranks - static_cast<double>(joins.size())) / c.ranks;
    for (double at = std::max(now, stopped_until); at < event;) {
      const double work = std::min(event - at, c.interval - worked);
      at += work, worked += work, unsaved += work * share;
      if (worked < c.interval) break;
      at += c.snapshot;
      if (at <= event) lasting += unsaved, unsaved = 0, worked = 0;
    }
    now = event;
    if (event == join) {
      joins.erase(joins.begin());
      stopped_until = std::max(now, stopped_until) + c.join;
    } else {
      joins.push_back(now + c.repair);
      stopped_until = now + c.resume;
      unsaved = worked = 0;
      --failures;
      failure = next_failure();
    }
  }
  return lasting / now;
}

TEST(Lab25_8d, GoodputOfAThousandFailures) {
  for (std::uint64_t i = 0; i < 6; ++i) {
    const SurvivorCosts costs{.ranks = static_cast<int>(draw_whole(31, i, 16, 128)),
                              .mtbf = 64e3,
                              .interval = draw_whole(32, i, 20, 200),
                              .snapshot = draw_whole(33, i, 1, 5),
                              .resume = draw_whole(34, i, 5, 30),
                              .repair = draw_whole(35, i, 100, 4000),
                              .join = draw_whole(36, i, 1, 10)};
    const double lost = 1 - goodput(costs), simulated = 1 - simulated_goodput(costs, 20000, 40 + i);
    ASSERT_NEAR(lost / simulated, 1, 0.06)
        << fmt::format("{:.4f} are lost by the formula, and {:.4f} in a simulation of 20,000 failures, of {} ranks, ",
                       lost, simulated, costs.ranks)
        << words_of_value(costs.interval) << " s between snapshots, " << costs.repair << " s until one joins";
  }
}

TEST(Lab25_8d, TimeToALoss) {
  ExpectNear(time_to_loss({.ranks = 10, .mtbf = 1000}, 5), 10000) << "1000²/(2·10·5) s";
  ExpectNear(time_to_loss({.ranks = 16384, .mtbf = 1.8e8}, 60), 1.8e8 * 1.8e8 / (2 * 16384 * 60.0))
      << "16,384 ranks that fail every 50,000 hours, a minute without a copy";
  constexpr int kRanks = 10;
  constexpr double kMtbf = 1000, kWindow = 5;
  std::vector<double> last(kRanks, -1e9);
  double now = 0;
  int losses = 0;
  for (std::uint64_t i = 0; i < 400000; ++i) {
    now -= kMtbf / kRanks * std::log1p(-draw(51, i));
    const auto dead = static_cast<std::size_t>(draw_whole(52, i, 0, kRanks - 1));
    losses += now - last[(dead + 1) % kRanks] < kWindow;
    losses += now - last[(dead + kRanks - 1) % kRanks] < kWindow;
    last[dead] = now;
  }
  const double formula = time_to_loss({.ranks = kRanks, .mtbf = kMtbf}, kWindow);
  ASSERT_NEAR(formula / (now / losses), 1, 0.08)
      << "the formula says " << formula << " s, and in 400,000 failures it was one in " << now / losses << " s";
}

}  // namespace
}  // namespace lockstep::week25::survivors_test
