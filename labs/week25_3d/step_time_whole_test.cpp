// Tests of exercises 25.3 and 25.6 together: plans for GPT-3, and predictions compared with the simulator.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/runtime/run.hpp"
#include "common/testing/answered.hpp"
#include "labs/trainer/plan/simulate_testing.hpp"
#include "labs/week25_3d/planner_testing.hpp"
#include "labs/week25_3d/step_time_testing.hpp"

namespace lockstep::week25::step_time_whole_test {
namespace {

/// By the answer's formulas; in a grade, from the process that ran them.
Rated rated_by(plan::Predictor& predictor, const Strategy& strategy) {
  return testing::answered("the rate of " + plan::format_strategy(strategy), [&] { return predictor.rate(strategy); });
}

TEST(Lab25_6c, Gpt3On1024A100) {
  const plan::Task task = gpt3_on_1024_a100();
  plan::Predictor predictor(task);
  const std::vector<Rated> best =
      testing::answered("the ten best plans", [&] { return plan::search(predictor, plan::strategies(task), 10).best; });
  ASSERT_EQ(best.size(), 10u) << "the ten best plans were asked for";
  for (const Rated& plan : best) {
    EXPECT_LE(plan.memory.total_bytes(), 80e9) << plan::format_strategy(plan.strategy) << ": it must fit on a GPU";
    EXPECT_LE(plan.strategy.tp, 8) << plan::format_strategy(plan.strategy)
                                   << ": tensor parallelism belongs inside the node";
  }
  // 8 × 8 × 16, plain: recomputation, 1F1B.
  const Rated course = rated_by(predictor, {.dp = 8, .tp = 8, .pp = 16, .zero = 1, .recompute = true});
  EXPECT_LE(course.memory.total_bytes(), 80e9) << "8 × 8 × 16 with recomputation fits on a GPU";
  EXPECT_LT(best.front().time.total(), course.time.total()) << "the best plan is faster than 8 × 8 × 16 with 1F1B";
  EXPECT_EQ(limit(course.time).name, "compute") << "what limits 8 × 8 × 16";
  EXPECT_EQ(largest_overhead(course.time).name, "recomputation") << "which the best plan does without";
}

TEST(Lab25_6c, RanksStrategiesAsTheSimulatorDoes) {
  if (std::string_view(backend_name()) != "sim") GTEST_SKIP() << "it checks virtual time, which only the simulator has";
  const plan::Task task = two_nodes();
  plan::Predictor predictor(task);
  std::vector<double> predicted, simulated;
  std::size_t number = 0;
  for (const Strategy& strategy : plan::strategies(task)) {
    if (plan::why_not(task, strategy) || ++number % 61 != 0) continue;
    const Rated rated = rated_by(predictor, strategy);
    const plan::Simulated step = plan::simulate(task, strategy);  // 25.2's, phantom, on all 16 ranks
    predicted.push_back(rated.time.total());
    simulated.push_back(step.seconds);
    ExpectNear(predicted.back() / step.seconds, 1, 0.12)
        << plan::format_strategy(strategy) << ": predicted " << predicted.back() << " s, simulated " << step.seconds;
    const double memory = rated.memory.total_bytes() / step.memory_bytes;
    EXPECT_TRUE(memory > 0.9 && memory < 1.2)
        << plan::format_strategy(strategy) << ": predicted " << rated.memory.total_bytes() / 1e9
        << " GB, the ledger's peak is " << step.memory_bytes / 1e9;
  }
  ASSERT_GE(predicted.size(), 20u) << "strategies that were predicted and simulated";
  EXPECT_GT(rank_correlation(predicted, simulated), 0.98) << "the order of the predictions is the simulator's";
  const auto chosen =
      static_cast<std::size_t>(std::min_element(predicted.begin(), predicted.end()) - predicted.begin());
  EXPECT_LT(simulated[chosen], 1.03 * *std::min_element(simulated.begin(), simulated.end()))
      << "what the predictions choose is as good as the best in the simulator";
}

}  // namespace
}  // namespace lockstep::week25::step_time_whole_test
