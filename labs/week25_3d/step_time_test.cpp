// Tests of exercise 25.6: exposed time against week 21's rings, the step against the pipeline's own clock.
#include "labs/week25_3d/step_time.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "common/testing/answered.hpp"
#include "labs/week25_3d/planner_testing.hpp"

namespace lockstep::week25::step_time_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto exposed_data = testing::answer<week25::exposed_data>;
constexpr auto step_time = testing::answer<week25::step_time>;
constexpr auto choose = testing::answer<week25::choose>;

// Part a --------------------------------------------------------------------------------------------------------------

const week21::CostModel kLinks{.alpha = 1e-5, .beta = 1e-9, .gamma = 1e-12, .launch = 1e-6};

/// One stage whose forward takes `forward` and backward twice that; a tenth of its gradients is late.
Workload one_stage(double forward, int microbatches) {
  Workload work = billion(1, microbatches);
  work.stages[0].forward = forward;
  work.stages[0].backward = work.stages[0].window = 2 * forward;
  work.stages[0].late = 0.1e9;
  work.data = kLinks;
  return work;
}

struct Sums {
  double late_s, late_g, s, g, additions;
};
Sums sums_of(const Strategy& strategy, const Workload& work) {
  Sums sums{.late_s = scatter_seconds(strategy, work, 0.1e9),
            .late_g = gather_seconds(strategy, work, 0.1e9),
            .s = scatter_seconds(strategy, work, 0.9e9),
            .g = gather_seconds(strategy, work, 0.9e9)};
  sums.additions = sums.s - sums.g;
  return sums;
}

TEST(Lab25_6a, WhatHidesLeavesTheLateAndTheAdditions) {
  const int m = 6 + static_cast<int>(testing::drawn({25, 15}, 9));
  const Workload work = one_stage(100, m);  // longer than any sum
  for (const int zero : {0, 1, 2, 3}) {
    const Strategy strategy{.dp = 4, .zero = zero};
    const Sums t = sums_of(strategy, work);
    const double expected = zero == 0   ? t.late_s + t.late_g + t.additions
                            : zero == 1 ? t.late_s + t.additions + t.late_g + t.g
                            : zero == 2 ? m * (t.late_s + t.additions) + t.late_g + t.g
                                        : m * (t.late_s + 2 * t.late_g + t.additions);
    expect_seconds(exposed_data(strategy, work, work.stages[0]), expected) << "ZeRO-" << zero << " exposes";
  }
  expect_seconds(exposed_data({.dp = 1}, work, work.stages[0]), 0) << "a single replica has nothing to sum";
}

TEST(Lab25_6a, WhatCannotHideIsWaitedFor) {
  const int m = 6 + static_cast<int>(testing::drawn({25, 16}, 9));
  const Workload work = one_stage(0.1, m);  // shorter than any sum
  for (const int zero : {0, 1, 2, 3}) {
    const Strategy strategy{.dp = 4, .zero = zero};
    const Sums t = sums_of(strategy, work);
    const double expected = zero == 0   ? t.late_s + t.late_g + t.s + t.g - 0.2
                            : zero == 1 ? t.late_s + t.s - 0.2 + t.late_g + t.g
                            : zero == 2 ? m * (t.late_s + t.s - 0.2) + t.late_g + t.g
                                        : m * (t.late_s + 2 * t.late_g + t.g - 0.1 + t.g + t.s - 0.2);
    expect_seconds(exposed_data(strategy, work, work.stages[0]), expected) << "ZeRO-" << zero << " exposes";
  }
}

TEST(Lab25_6a, ChunksWidenTheWindow) {
  const Workload work = one_stage(0.1, 8);
  for (const int zero : {0, 1}) {
    const Strategy plain{.dp = 4, .pp = 4, .zero = zero},
        chunks{.dp = 4, .pp = 4, .schedule = "interleaved", .chunks = 2, .zero = zero};
    ExpectNear(exposed_data(plain, work, work.stages[0]) - exposed_data(chunks, work, work.stages[0]),
               0.2 * 5 / 2 - 0.2)
        << "ZeRO-" << zero
        << ": of two chunks the second one's gradients are final 4 turns earlier: a window of (1 + 4)/2 backwards. "
           "Less is exposed, by";
  }
}

// Part b --------------------------------------------------------------------------------------------------------------

/// With 25.3's pipeline, played whole.
StepTime step_of(const Strategy& strategy, const Workload& work) {
  Workload still = work;
  for (StageWork& stage : still.stages) stage.hop = 0;
  return step_time(strategy, work, play(strategy, work.stages, work.microbatches),
                   play(strategy, still.stages, work.microbatches));
}

TEST(Lab25_6b, TheSlowestSumCounts) {
  Workload work = uneven(4, 8, 0, 0);
  work.stages.back().after = 30;  // ends 6 s before stage 0, three backwards
  ExpectNear(step_of({.pp = 4}, work).data, 24) << "30 s, of which stage 0 needs 6 for its last backwards";
  work.stages.back().after = 3;
  ExpectNear(step_of({.pp = 4}, work).data, 0) << "3 s, done before stage 0 has ended";
}

TEST(Lab25_6b, TheStepIsTheSumOfItsParts) {
  for_pipelines([](const Named& named, int p, int m) {
    Workload work = uneven(p, m, 0.01, 0.1);
    for (StageWork& stage : work.stages) stage.tensor = 0.3, stage.recomputed = 0.5, stage.parameters = 1e9;
    work.data = kLinks;
    work.norm = 0.25;
    work.memory_bytes_per_second = 2e12;
    Strategy strategy = pipeline_of(named, p);
    strategy.dp = 4;
    const StepTime time = step_of(strategy, work);
    const StageWork& last = work.stages.back();
    ExpectNear(time.compute + time.recomputed + time.tensor, m * (last.forward + last.backward))
        << format_case(named, p, m) << "the last stage is the busiest";
    ExpectNear(time.recomputed, m * 0.5) << format_case(named, p, m) << "recomputation, of the busiest stage";
    ExpectNear(time.tensor, m * 0.3) << format_case(named, p, m) << "waiting for tensor-parallel all-reduces";
    const std::vector<double> ends = ends_of(named, work);
    const double all = *std::max_element(ends.begin(), ends.end());
    ExpectNear(time.total() - time.data - time.update, all)
        << format_case(named, p, m) << "all but data and update, which is what the pipeline takes";
    double data = 0;  // every stage has the same sums: the one that ends last needs longest
    for (std::size_t s = 0; s < ends.size(); ++s)
      data = std::max(data, exposed_data(strategy, work, work.stages[s]) - (all - ends[s]));
    ExpectNear(time.data, data) << format_case(named, p, m) << "the sums of the stage that ends last";
    ExpectNear(time.update, 0.25 + 32e9 / 2e12) << format_case(named, p, m) << "the norm once, and one stage's update";
    for (StageWork& stage : work.stages) stage.hop = 0;
    const std::vector<double> still = ends_of(named, work);
    ExpectNear(time.hops, all - *std::max_element(still.begin(), still.end())) << format_case(named, p, m) << "hops";
  });
}

TEST(Lab25_6b, TheUpdateIsOfWhatThisRankHas) {
  Workload work = billion(1, 1);
  work.data = kLinks;
  work.memory_bytes_per_second = 2e12;
  for (const auto& [zero, bytes] : {std::pair{0, 32e9}, {1, 9.5e9}, {2, 8e9}, {3, 8e9}})
    ExpectNear(step_of({.dp = 4, .zero = zero}, work).update, bytes / 2e12)
        << "ZeRO-" << zero << ": seconds of the update";
  for (const std::size_t larger : {0, 1, 2}) {
    Workload unequal = billion(3, 3);
    unequal.stages[larger].parameters = 2e9;
    unequal.memory_bytes_per_second = 2e12;
    ExpectNear(step_of({.pp = 3}, unequal).update, 64e9 / 2e12)
        << "seconds of the update, of stage " << larger << ", which has twice the parameters of the others";
  }
}

// Part c --------------------------------------------------------------------------------------------------------------

Rated rated(double seconds, double gigabytes) {
  return {{}, {.compute = seconds}, {.state = {}, .activation_bytes = gigabytes * 1e9}};
}

TEST(Lab25_6c, TheFastestThatFit) {
  const std::vector<Rated> all{rated(3, 10), rated(1, 90), rated(2, 80), rated(2, 40), rated(5, 1)};
  const std::vector<Rated> best = choose(all, 80e9, 3);
  ASSERT_EQ(best.size(), 3u) << "the three fastest are asked for, of four that fit";
  EXPECT_EQ(best[0].time.total(), 2) << "1 s would need 90 GB of 80";
  EXPECT_EQ(best[0].memory.total_bytes(), 40e9) << "of two that take 2 s the one with less memory comes first";
  EXPECT_EQ(best[1].memory.total_bytes(), 80e9) << "80 GB fit in 80 GB";
  EXPECT_EQ(best[2].time.total(), 3) << "after the two that take 2 s";
  EXPECT_TRUE(choose(all, 0.5e9, 3).empty()) << "nothing fits in half a GB, so nothing is chosen";
  EXPECT_EQ(choose(all, 15e9, 3).size(), 2u) << "two fit in 15 GB: there is no third";
}

TEST(Lab25_6c, OfAnyList) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto whole = [&](std::uint64_t which, std::uint64_t below) {
      return static_cast<double>((7 * i + 5 * which + testing::drawn({25, 17, i, which}, 1000)) % below);
    };
    std::vector<Rated> all, fit;
    for (std::uint64_t k = 0; k < 5 + i; ++k) all.push_back(rated(1 + whole(2 * k, 9), 1 + whole(2 * k + 1, 97)));
    for (const Rated& one : all)
      if (one.memory.total_bytes() <= 50e9) fit.push_back(one);
    const auto before = [](const Rated& a, const Rated& b) {
      return std::pair(a.time.total(), a.memory.total_bytes()) < std::pair(b.time.total(), b.memory.total_bytes());
    };
    std::sort(fit.begin(), fit.end(), before);
    fit.resize(std::min<std::size_t>(fit.size(), 4));
    const std::vector<Rated> best = choose(all, 50e9, 4);
    ASSERT_EQ(best.size(), fit.size()) << "of " << all.size() << " plans those that fit 50 GB, at most four of them";
    for (std::size_t k = 0; k < fit.size(); ++k)
      ASSERT_TRUE(!before(best[k], fit[k]) && !before(fit[k], best[k]))
          << "number " << k + 1 << " of the chosen takes " << best[k].time.total() << " s and "
          << best[k].memory.total_bytes() / 1e9 << " GB, expected " << fit[k].time.total() << " s and "
          << fit[k].memory.total_bytes() / 1e9 << " GB: the fastest first, of equal ones the one with less memory";
  }
}

}  // namespace
}  // namespace lockstep::week25::step_time_test
