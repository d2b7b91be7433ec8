// Tests of exercise 25.3: each formula against week 24's schedules and week 21's rings.
#include "labs/week25_3d/planner.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/testing/answered.hpp"
#include "labs/week25_3d/planner_testing.hpp"

namespace lockstep::week25::planner_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto in_flight = testing::answer<week25::in_flight>;
constexpr auto stage_memory = testing::answer<week25::stage_memory>;
constexpr auto pipeline = testing::answer<week25::pipeline>;

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab25_3a, EachChunkHoldsUntilItsBackwardIsOver) {
  // Schedules that are none of week 24's.
  ExpectNear(in_flight(parse_stage("F0 I0 F1 I1 W0 W1"), 1), 2) << "F0 I0 F1 I1 W0 W1: the weight gradients need them";
  ExpectNear(in_flight(parse_stage("F0 I0 W0 F1 I1 W1"), 1), 1) << "F0 I0 W0 F1 I1 W1: one after the other";
  ExpectNear(in_flight(parse_stage("F0.0 F0.1 B0.1 F1.1 B1.1 B0.0 F1.0 B1.0"), 2), 1)
      << "F0.0 F0.1 B0.1 F1.1 B1.1 B0.0 F1.0 B1.0: one of each chunk, each half a microbatch";
  ExpectNear(in_flight(parse_stage("F0.0 F1.0 F2.0 B2.0 B1.0 B0.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1"), 2), 2)
      << "three of chunk 0, then one of chunk 1: 3/2 + 1/2, although there are never more than three at a time";
}

TEST(Lab25_3a, HoldsWhatTheScheduleHolds) {
  for_pipelines([](const Named& named, int p, int m) {
    const Schedule schedule = week24::make_schedule(named.schedule, {p, m, named.chunks});
    for (int s = 0; s < p; ++s) {
      const StageSchedule& steps = schedule[static_cast<std::size_t>(s)];
      const int peak = peak_of_chunks(steps, named.chunks);
      ExpectNear(in_flight(steps, named.chunks), peak / static_cast<double>(named.chunks))
          << format_case(named, p, m) << "microbatches in flight of stage " << s << ", each chunk at its peak";
    }
  });
}

TEST(Lab25_3a, ModelStateIsDividedOverDpAlone) {
  struct Case {
    int zero;
    double parameters, gradients, optimizer;
  };
  const int dp = 4 + static_cast<int>(testing::drawn({25, 14}, 13));
  const double of = dp;
  for (const Case& c :
       {Case{0, 2, 2, 12}, Case{1, 2, 2, 12 / of}, Case{2, 2, 2 / of, 12 / of}, Case{3, 2 / of, 2 / of, 12 / of}}) {
    const StageBytes memory = stage_memory({.dp = dp, .tp = 8, .zero = c.zero}, billion(1, 1).stages[0], 1);
    const std::string where = fmt::format(
        "ZeRO-{}, dp {}, tp 8, in bf16: the 1e9 parameters given are already this rank's, so only dp divides: bytes "
        "of ",
        c.zero, dp);
    ExpectNear(memory.state.parameter_bytes, c.parameters * 1e9) << where << "parameters";
    ExpectNear(memory.state.gradient_bytes, c.gradients * 1e9) << where << "gradients";
    ExpectNear(memory.state.optimizer_bytes, c.optimizer * 1e9) << where << "optimizer state";
  }
}

TEST(Lab25_3a, ActivationsAreKeptForEachMicrobatchInFlight) {
  for (const double microbatches : {1.0, 2.5, about(4.0, 1)})
    ExpectNear(stage_memory({.dp = 4, .tp = 2, .pp = 4}, billion(4, 8).stages[0], microbatches).activation_bytes,
               microbatches * 3e9 + 5e9)
        << "3 GB for each of " << microbatches
        << " microbatches in flight, and 5 GB once, all of this rank: dp and tp divide nothing more";
}

// Part b --------------------------------------------------------------------------------------------------------------

/// The schedule itself at full length, by its own clock.
void expect_like_the_schedule(const Named& named, const Workload& work, double tolerance) {
  const int p = static_cast<int>(work.stages.size());
  const Pipeline predicted = pipeline(pipeline_of(named, p), work);
  const std::vector<double> ends = ends_of(named, work);
  ASSERT_EQ(predicted.ends.size(), ends.size()) << format_case(named, p, work.microbatches) << "one end for each stage";
  for (std::size_t s = 0; s < ends.size(); ++s)
    ExpectNear(predicted.ends[s], ends[s], tolerance, " s")
        << format_case(named, p, work.microbatches) << "when stage " << s
        << " ends, by the schedule's own clock, if every microbatch is played";
}

TEST(Lab25_3b, EqualStagesAreExactAtAnyLength) {
  for_pipelines([](const Named& named, int p, int m) {
    for (const double hop : {0.0, about(0.1, 2)})
      expect_like_the_schedule(named, uneven(p, m, hop / named.chunks, 0), 1e-9);
  });
}

TEST(Lab25_3b, SoIsMemory) {
  for_pipelines([](const Named& named, int p, int m) {
    const Pipeline predicted = pipeline(pipeline_of(named, p), uneven(p, m, 0, 0));
    const Schedule schedule = week24::make_schedule(named.schedule, {p, m, named.chunks});
    for (std::size_t s = 0; s < schedule.size(); ++s) {
      const double peak = peak_of_chunks(schedule[s], named.chunks) / static_cast<double>(named.chunks);
      const bool a_wrong = in_flight(schedule[s], named.chunks) != peak;
      ExpectNear(predicted.in_flight[s], peak) << (a_wrong ? "25.3a first, in_flight: " : "")
                                               << format_case(named, p, m) << "microbatches in flight of stage " << s;
    }
  });
}

TEST(Lab25_3b, AShortPipelineIsPlayedWhole) {
  // No steady state yet, and uneven stages: only playing is exact.
  for (const Named& named : kSchedules)
    for (const int p : {2, 4, 8})
      for (int m = 1; m <= 3 * p; ++m) {
        if (named.chunks > 1 && m % p != 0) continue;  // interleaved has whole groups
        Workload work = uneven(p, m, about(0.3, 3) / named.chunks, about(0.25, 4));
        work.stages.front().forward *= 1.5;
        expect_like_the_schedule(named, work, 1e-12);
      }
}

TEST(Lab25_3b, UnevenStagesAndSlowHops) {
  for_pipelines([](const Named& named, int p, int m) {
    for (const double head : {0.1, about(0.2, 5)})
      for (const double hop : {0.02, about(0.08, 6)}) {
        Workload work = uneven(p, m, hop / named.chunks, head);
        work.stages.front().backward *= 0.9;
        expect_like_the_schedule(named, work, named.chunks > 1 ? 0.03 : 0.01);
      }
  });
}

TEST(Lab25_3b, MicrobatchesThatFillNoGroup) {
  for (const Named& named : kSchedules) {
    if (named.chunks > 1) continue;  // interleaved has whole groups
    for (const int m : {1, 3, 5, 13, 14, 47}) expect_like_the_schedule(named, uneven(4, m, 0.1, 0.25), 0.01);
  }
}

TEST(Lab25_3b, NoMoreThanThreeRoundsArePlayed) {
  double most = 0;  // by which a longer play differs, so that it would be seen
  for_pipelines([&](const Named& named, int p, int) {
    const auto work = [&](int rounds) {
      Workload slow_first = uneven(p, rounds * p, about(0.1, 7) / named.chunks, about(0.03, 8));
      slow_first.stages.front().backward *= 1.2;
      return slow_first;
    };
    const std::vector<double> two = ends_of(named, work(2)), three = ends_of(named, work(3));
    for (const int rounds : {4, 5}) {
      const Pipeline predicted = pipeline(pipeline_of(named, p), work(rounds));
      for (std::size_t s = 0; s < three.size(); ++s) {
        const double expected = three[s] + (rounds - 3) * (three[s] - two[s]);
        ExpectNear(predicted.ends.at(s), expected)
            << format_case(named, p, rounds * p) << "when stage " << s
            << " ends: 3p microbatches are simulated, and the change from 2p to 3p repeats with each p";
        most = std::max(most, std::abs(ends_of(named, work(rounds))[s] - expected));
      }
    }
  });
  ASSERT_GT(most, 1e-6) << "some pipeline is not steady after 3p microbatches";
}

TEST(Lab25_3b, APipelineThatNobodyCouldPlay) {
  // A billion microbatches: their steps would not fit a computer's memory.
  const int p = 4, m = 1'000'000'000;
  ExpectNear(pipeline({.pp = p}, uneven(p, m, 0, 0)).seconds() / (3.0 * (m + p - 1)), 1)
      << "1F1B: m + p − 1 forwards and backwards";
}

}  // namespace
}  // namespace lockstep::week25::planner_test
